"""The client that the lock manager on ZooKeeper needs: one session, with requests that wait for their answer.

Every request may raise :class:`mqbroker.ha.locks.contract.UnavailableError`; it may have taken effect then, or do so a little later.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class NoNodeError(Exception):
    """A node, or the one above it, does not exist."""


class NodeExistsError(Exception):
    """The node exists already."""


class VersionError(Exception):
    """The content of the node has been changed meanwhile."""


class Session(Protocol):
    """Paths are absolute.  Answers come from the server that the client is connected to, which may be behind: see :meth:`sync`."""

    @property
    def session_id(self) -> int:
        """The owner of the ephemeral nodes of this session."""

    @property
    def timeout_ms(self) -> int:
        """How long the ensemble keeps the session when it hears nothing."""

    @property
    def is_over(self) -> bool:
        """Has the session ended, or may it have?  No request is answered any more."""

    def sync(self, path: str) -> None:
        """Later answers know of everything that was written before this call."""

    def children(self, path: str) -> Sequence[str]:
        """The names.  Raises NoNodeError."""

    def owner(self, path: str) -> int | None:
        """The session of an ephemeral node, 0 for another node; None: there is no such node."""

    def read(self, path: str) -> tuple[bytes, int]:
        """Content and version of a node.  Raises NoNodeError."""

    def create(self, path: str) -> None:
        """Make an empty node that stays.  Raises NodeExistsError, NoNodeError."""

    def create_contender(self, path: str, content: bytes) -> None:
        """Make a node that ends with the session; the ensemble appends a growing number to its name.  Raises NoNodeError."""

    def delete(self, path: str) -> None:
        """Remove a node; without effect when there is none."""

    def write(self, path: str, content: bytes, version: int | None, while_exists: str) -> None:
        """Replace the content of the given version, or make the node (None), in one step with the proof that ``while_exists`` exists.

        Raises NoNodeError (for ``while_exists``, or a node above ``path``), VersionError, NodeExistsError.
        """

    def close(self) -> None:
        """End the session, and with it its ephemeral nodes.  Never raises."""
