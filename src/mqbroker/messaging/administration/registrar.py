"""The registrar agrees before a definition changes or a name is taken: for this broker alone, or for a cluster (decision 32)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol

from mqbroker.config.model.cluster import DivertConfiguration
from mqbroker.messaging.queues.definitions import QueueDefinition

if TYPE_CHECKING:
    from mqbroker.messaging.core import MessagingCore
    from mqbroker.messaging.ports import Recovered


@dataclass(frozen=True, slots=True)
class AddressDefinition:
    """An address as others have to know it."""

    name: str
    routing_types: frozenset[int]
    auto_created: bool = False


@dataclass(frozen=True, slots=True)
class AddressSettingDefinition:
    """The settings of the addresses that ``name`` matches, beside those of the configuration.

    ``text`` is a JSON object with the names of Java beans, as management writes them; empty where they are deleted.
    """

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class Change:
    """A wish to create, update or delete a definition.  ``definition`` is the new one, or for a deletion the old one.

    A queue's missing address is made together with the queue, without a change of its own.  Settings of addresses are updated also where
    there are none yet.
    """

    action: Literal["create", "update", "delete"]
    definition: AddressDefinition | QueueDefinition | DivertConfiguration | AddressSettingDefinition


@dataclass(frozen=True, slots=True)
class Reservation:
    """A name of a ``kind`` that one holder at a time has: a client id, or the place of a consumer that shares its queue with few others.

    ``holder`` names a session, or a consumer of one; a client id has the name of its metadata as ``kind``.
    """

    kind: str
    name: str
    holder: str


class Ended(NamedTuple):
    """Of what another broker had: the ids of queues, and the names of addresses, that were deleted while it was away."""

    queues: Collection[int] = ()
    addresses: Collection[str] = ()


CONSUMER_PLACE = "consumer"
"""The kind of a place at a queue that is exclusive or has a limit of consumers; the name is that of the queue."""


class Registrar(Protocol):
    """Keeps definitions and names the same wherever they have to be.

    :meth:`agree` and :meth:`reserve` raise Undecided while there is no answer yet; the caller then asks again with an equal value.  Both
    raise MQError when the answer is no, or when there can be none.
    """

    def agree(self, change: Change) -> None:
        """Returns when the change can be made now; it is valid as far as this broker knows."""

    def made(self, change: Change) -> None:
        """The change that was agreed to has been made; called right after it, in the same turn."""

    def reserve(self, reservation: Reservation) -> bool:
        """Reserve a name.  False: another holder has the name."""

    def hold(self, reservation: Reservation) -> None:
        """A client has come with a name that it got before, at this broker or another one; it is not asked whether it may.

        The name is reserved as soon as nobody else has it.
        """

    def release(self, reservation: Reservation) -> None:
        """The holder has gone."""

    def shares(self, definition: QueueDefinition) -> bool:
        """Do others have the queue, too, so that it may have been deleted there, and this broker has not heard of it yet?"""

    def read_on(self) -> None:
        """Returns where this broker knows all that others have defined, or cannot come to know more now.

        Raises Undecided until that is so, and at each call anew: whoever has waited for the answer does not ask again.
        """

    def ended(self, found: Recovered, core: MessagingCore, kept: Mapping[tuple[str, str], str] | None) -> Ended:
        """The part of ``found``, which another broker had and this one has got, that counts no more.

        ``kept`` are the settings in the own store while this broker starts, None = it serves.
        """


class LocalRegistrar:
    """The registrar of a broker that is alone: it agrees to everything that the broker itself has checked."""

    def agree(self, change: Change) -> None:
        pass

    def made(self, change: Change) -> None:
        pass

    def reserve(self, reservation: Reservation) -> bool:
        return True

    def hold(self, reservation: Reservation) -> None:
        pass

    def release(self, reservation: Reservation) -> None:
        pass

    def shares(self, definition: QueueDefinition) -> bool:
        return False

    def read_on(self) -> None:
        pass

    def ended(self, found: Recovered, core: MessagingCore, kept: Mapping[tuple[str, str], str] | None) -> Ended:
        return Ended()
