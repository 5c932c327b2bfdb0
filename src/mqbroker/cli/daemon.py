"""``python -m mqbroker.cli.daemon``: twistd in the foreground with the mqbroker plugin.  ``mqbroker run`` becomes this process."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import NoReturn


def become_broker(arguments: Sequence[str]) -> NoReturn:
    """Turn this process into the broker: the starting program keeps the process id, and no memory of the command line is left."""
    sys.stdout.flush()
    os.execv(sys.executable, [sys.executable, "-m", "mqbroker.cli.daemon", *arguments])


def main() -> None:
    """Run ``twistd -n --pidfile= mqbroker`` with the arguments of this process."""
    from twisted.scripts.twistd import run

    sys.argv = ["twistd", "-n", "--pidfile=", "mqbroker", *sys.argv[1:]]
    run()  # type: ignore[no-untyped-call]


if __name__ == "__main__":
    main()
