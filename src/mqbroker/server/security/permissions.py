"""Permission checks of one session, remembered until the settings change."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mqbroker.server.security.security import SecurityManager, Subject

REMEMBERED_MAX = 1000
"""Decisions about permissions that one session remembers; beyond them the session asks the security manager again."""


class SessionPermissions:
    """The permissions of the session's user."""

    __slots__ = ("_allowed", "_security", "_subject", "_version")

    def __init__(self, security: SecurityManager, subject: Subject) -> None:
        self._security = security
        self._subject = subject
        self._allowed: set[tuple[str, str, str | None]] = set()
        self._version = security.version

    def knows(self, permission: str, address: str, queue: str | None = None) -> bool:
        """Has this address, or this queue of the address, passed :meth:`check` under the present settings?"""
        return self._version == self._security.version and (permission, address, queue) in self._allowed

    def check(self, permission: str, address: str, queue: str | None = None) -> None:
        """Raises SecurityError when the user lacks ``permission`` on the address, or on this queue of the address."""
        security = self._security
        if self._version != security.version or len(self._allowed) >= REMEMBERED_MAX:
            self._allowed.clear()
            self._version = security.version
        key = (permission, address, queue)
        if key not in self._allowed:
            security.check(self._subject, permission, address, queue)
            self._allowed.add(key)
