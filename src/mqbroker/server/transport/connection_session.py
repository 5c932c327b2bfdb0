"""A session as its connection knows it: it gets the frames of a channel, and ends with the connection."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from mqclient.protocol.window import ConfirmationWindow

if TYPE_CHECKING:
    from collections.abc import Collection, Sized

    from mqbroker.messaging.filters.filter import Filter
    from mqbroker.server.security.security import Subject


class SendLoad(Protocol):
    """The sends of one session, as far as the limits of its connection count them."""

    @property
    def producers(self) -> Sized: ...

    @property
    def requests_waiting(self) -> int:
        """The number of requests for credits that wait for room."""

    @property
    def upload_size(self) -> int:
        """Bytes of the headers of the large message whose body is arriving."""

    @property
    def upload_body_size(self) -> int:
        """Bytes of the body of the arriving large message, so far."""


class ConnectionSession:
    """The session of one channel; a class, and not a protocol, because each frame passes it.

    ``subject`` is its user, ``version`` the protocol version of its packets, and ``created_ms`` the time of its creation (ms since 1970).
    ``window`` is None without a confirmation window.  ``reattachable``: all packets that the client may have missed are kept.
    """

    __slots__ = ("channel", "closed", "created_ms", "metadata", "name", "reattachable", "subject", "version", "window")

    def __init__(self, name: str, channel: int, subject: Subject, version: int, created_ms: int, window_size: int) -> None:
        self.name = name
        self.channel = channel
        self.subject = subject
        self.version = version
        self.created_ms = created_ms
        self.window = ConfirmationWindow(window_size) if window_size >= 0 else None
        self.reattachable = self.window is not None
        self.closed = False
        self.metadata: dict[str, str] = {}

    # --- input and the end

    def handle_some(self, packet_type: int, frames: list[bytes], index: int) -> int:
        """Handle the frame at ``index``, and following frames of the same run.  Returns the index of the next frame."""
        raise NotImplementedError

    def writable_changed(self) -> None:
        """The connection has room for output again, or has no more room."""
        raise NotImplementedError

    def flush_confirmations(self) -> None:
        """Confirm processed packets although the window is not full."""
        raise NotImplementedError

    def refuse_reattachment(self) -> None:
        """A client reattaches, but its missed packets are not kept: end the session, so that a new one may have its name."""
        raise NotImplementedError

    def end(self, failed: bool) -> None:
        """Release all resources of the session; ``failed`` when its connection broke.  A second call does nothing."""
        raise NotImplementedError

    def send_load(self) -> SendLoad:
        """The sends of the session, for the limits of the connection."""
        raise NotImplementedError

    def consumer_filters(self) -> Collection[Filter | None]:
        """The filter of each consumer."""
        raise NotImplementedError
