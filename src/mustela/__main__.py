"""``python -m mustela``: the command line, where its script is not on the path."""

import sys

from mustela.cli.main import main

if __name__ == "__main__":  # who walks through all modules imports this one too
    sys.exit(main())
