"""Plants a bug into every Python process that has this directory on its path."""

from __future__ import annotations

import os

if os.environ.get("FAULTS_BUG"):
    from tests.faults.bugs import plant

    plant(os.environ["FAULTS_BUG"])
