"""``python -m mustela``: the command line, where its script is not on the path."""

import sys

from mustela.cli.main import main

sys.exit(main())
