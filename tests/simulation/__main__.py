"""``python -m tests.simulation``."""

import sys

from tests.simulation.many import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
