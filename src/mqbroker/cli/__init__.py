"""The ``mqbroker`` console command.

This module stays empty of imports: ``mqbroker run`` turns its process into the broker, and a broker imports no click and no rich.
"""

from __future__ import annotations


def main() -> None:
    """Run the command line of this process and exit with its status (see :mod:`mqbroker.cli.status`)."""
    from mqbroker.cli.root import run_command_line

    run_command_line()
