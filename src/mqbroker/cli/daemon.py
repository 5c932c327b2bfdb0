"""``python -m mqbroker.cli.daemon``: twistd in the foreground with the mqbroker plugin.  ``mqbroker run`` becomes this process."""

from __future__ import annotations

import sys


def main() -> None:
    """Run ``twistd -n --pidfile= mqbroker`` with the arguments of this process."""
    from twisted.scripts.twistd import run

    sys.argv = ["twistd", "-n", "--pidfile=", "mqbroker", *sys.argv[1:]]
    run()  # type: ignore[no-untyped-call]


if __name__ == "__main__":
    main()
