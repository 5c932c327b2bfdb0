"""The audit log: each login, denial and management operation with user, place and result.

Every line goes to the namespace ``mqbroker.audit`` and never holds a password.  A text that a client has chosen is quoted, so that it
cannot look like a line of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from twisted.logger import Logger

if TYPE_CHECKING:
    from mqbroker.server.security.security import Subject

NAMESPACE = "mqbroker.audit"
ANONYMOUS = "anonymous"
NO_CERTIFICATE = "unavailable"


class AuditLog:
    """Writes one line per event.  ``left_out`` is the number of earlier events of the same kind that got no line.

    A user without a name is ``anonymous``, as in the audit log of Artemis.
    """

    def __init__(self, logger: Logger | None = None) -> None:
        self._log = logger or Logger(namespace=NAMESPACE)

    def logged_in(self, subject: Subject, remote: str, certificate_name: str | None, left_out: int = 0) -> None:
        self._log.info(
            "login of {user!r} from {remote}: accepted, roles {roles}, certificate {certificate!r}{more}",
            user=_name(subject.name),
            remote=remote,
            roles=sorted(subject.roles),
            certificate=certificate_name or NO_CERTIFICATE,
            more=more_such(left_out),
        )

    def login_refused(self, user: str | None, remote: str, certificate_name: str | None, reason: str, left_out: int = 0) -> None:
        self._log.warn(
            "login of {user!r} from {remote}: refused, {reason}, certificate {certificate!r}{more}",
            user=_name(user),
            remote=remote,
            reason=reason,
            certificate=certificate_name or NO_CERTIFICATE,
            more=more_such(left_out),
        )

    def denied(self, subject: Subject, permission: str, address: str, queue: str | None, left_out: int = 0) -> None:
        self._log.warn(
            "{permission} of {user!r} on address {address!r}{queue}: denied{more}",
            user=_name(subject.name),
            permission=permission,
            address=address,
            queue="" if queue is None else f", queue {queue!r}",
            more=more_such(left_out),
        )

    def management(self, subject: Subject, remote: str, resource: str, operation: str, succeeded: bool) -> None:
        """A management operation; its parameters, which may be secret, are left out."""
        self._log.info(
            "{user!r} from {remote} called {operation!r} of {resource!r}: {result}",
            user=_name(subject.name),
            remote=remote,
            operation=operation,
            resource=resource,
            result="succeeded" if succeeded else "failed",
        )


def _name(user: str | None) -> str:
    return ANONYMOUS if user is None else user


def more_such(left_out: int) -> str:
    """The end of a line: how many events of its kind got no line."""
    return f" ({left_out} more since the last such line)" if left_out else ""
