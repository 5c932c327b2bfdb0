"""Whether new clients are taken: a broker may serve administrators alone for a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mqclient.errors import SessionCreationRejectedError

if TYPE_CHECKING:
    from mqbroker.server.security.security import SecurityManager, Subject


class Admission:
    """Refuses sessions of clients while there is a reason to.

    An administrator is who may send to the management address ``management``.
    """

    def __init__(self, security: SecurityManager, management: str) -> None:
        self._security = security
        self._management = management
        self._reasons: dict[str, str] = {}

    def restrict(self, kind: str, reason: str) -> None:
        """Take no new clients, but administrators and other brokers; clients are told ``reason``.  Each ``kind`` is lifted for itself."""
        self._reasons[kind] = reason

    def lift(self, kind: str) -> None:
        self._reasons.pop(kind, None)

    def restricts(self, kind: str) -> bool:
        """Is there a reason of this kind?"""
        return kind in self._reasons

    @property
    def reason(self) -> str | None:
        """Why no clients are taken; None while they are."""
        return next(iter(self._reasons.values()), None)

    def is_administrator(self, subject: Subject) -> bool:
        """Is this user taken whatever the reason is?  Without security nobody is."""
        security = self._security
        return security.enabled and security.allows(subject.roles, "manage", self._management)

    def check(self, subject: Subject) -> None:
        """Raises SessionCreationRejectedError for a user who is to wait."""
        if not self._reasons or subject.is_cluster_user or self.is_administrator(subject):
            return
        raise SessionCreationRejectedError(f"AMQ229008: Server not started: {self.reason}")
