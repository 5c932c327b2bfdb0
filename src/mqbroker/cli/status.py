"""Exit statuses of the ``mqbroker`` command, and the errors that lead to them.

Scripts may rely on these numbers; ``docs/cli.md`` lists them.  Unlike the ``artemis`` command, an operation that the broker refuses
ends with a status that is not 0.
"""

from __future__ import annotations

from typing import Final

OK: Final = 0
FAILED: Final = 1
"""The operation was refused, a check failed, or fewer messages than asked for were sent, received or browsed in error."""
USAGE: Final = 2
"""Unknown command or option, a missing or bad value."""
NO_CONNECTION: Final = 3
"""The broker could not be reached, or it refused the credentials."""
INTERRUPTED: Final = 130
"""Ctrl-C."""


class CommandError(Exception):
    """A command failed for a reason that one sentence explains; it is printed without a stack trace."""

    status: int = FAILED


class NoConnection(CommandError):
    """The broker could not be reached or refused the login."""

    status = NO_CONNECTION


class BadUsage(CommandError):
    """Options contradict each other, or a needed one is missing and cannot be asked for."""

    status = USAGE
