"""``python -m mqspark JOB``."""

from __future__ import annotations

import sys

from mqspark.jobs.command import invoke

if __name__ == "__main__":
    sys.exit(invoke())
