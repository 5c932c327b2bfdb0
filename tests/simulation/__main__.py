"""``python -m tests.simulation``."""

import sys

from tests.simulation.run import main

sys.exit(main(sys.argv[1:]))
