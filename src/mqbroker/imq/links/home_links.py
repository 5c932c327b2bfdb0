"""The links of a home broker: which members are linked, and sessions at each of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from mqbroker.messaging.event import Event
from mqclient.core.session.session import Session


class LinkedMember(Protocol):
    """Another member of the home cluster, while there is a link to it."""

    @property
    def node_id(self) -> str: ...

    @property
    def name(self) -> str:
        """The place of the member, ``host:port``."""

    @property
    def up(self) -> bool:
        """False from the loss of the link on; a link that comes back is another object."""

    async def open_session(self, *, transacted: bool = False, xa: bool = False) -> Session:
        """A session of the cluster user at the member.  It ends with the link.

        Without ``transacted`` acknowledgements and sends are done at once.  Raises the MQError of the member or of the link.
        """

    def fail(self, reason: Exception) -> None:
        """End the link; it is made again.  For a peer whose state cannot be known any more."""


class HomeLinks:
    """The linked members, by node id, in the order in which their links came up.

    The events are called inside a turn: ``linked`` when a member can be asked, ``unlinked`` when its link is lost or closed.
    """

    def __init__(self) -> None:
        self.linked: Event[LinkedMember] = Event()
        self.unlinked: Event[LinkedMember] = Event()
        self._members: dict[str, LinkedMember] = {}

    @property
    def members(self) -> Mapping[str, LinkedMember]:
        return self._members

    def up(self, member: LinkedMember) -> None:
        """The link to ``member`` is up."""
        self._members[member.node_id] = member
        self.linked(member)

    def down(self, member: LinkedMember) -> None:
        """The link to ``member`` is gone; nothing happens for one that was not up."""
        if self._members.get(member.node_id) is member:
            del self._members[member.node_id]
            self.unlinked(member)
