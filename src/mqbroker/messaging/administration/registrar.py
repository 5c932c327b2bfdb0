"""Who agrees before a definition changes or a name is taken: this broker alone, or others with it (decision 32)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

from mqbroker.config.model.cluster import DivertConfiguration
from mqbroker.messaging.queues.definitions import QueueDefinition


@dataclass(frozen=True, slots=True)
class AddressDefinition:
    """An address as others have to know it."""

    name: str
    routing_types: frozenset[int]
    auto_created: bool = False


@dataclass(frozen=True, slots=True)
class Change:
    """A definition that somebody wants to create, to update (it is then as ``definition`` says), or to delete (it was so).

    The address of a queue is made with it where it is missing, and is not asked for.
    """

    action: Literal["create", "update", "delete"]
    definition: AddressDefinition | QueueDefinition | DivertConfiguration


@dataclass(frozen=True, slots=True)
class Reservation:
    """A name of a ``kind`` that one holder at a time has: a client id, or the place of a consumer that shares its queue with few others.

    ``holder`` names a session, or a consumer of one; a client id has the name of its metadata as ``kind``.
    """

    kind: str
    name: str
    holder: str


CONSUMER_PLACE = "consumer"
"""The kind of a place at a queue that is exclusive or has a limit of consumers; the name is that of the queue."""


class Registrar(Protocol):
    """Keeps definitions and names the same wherever they have to be.

    Both questions raise Undecided where the answer takes time: the same question, by an equal value, is asked again when it is known.
    They raise MQError where the answer is no, or where nobody can give one.
    """

    def agree(self, change: Change) -> None:
        """Returns when the change can be made now; it is valid as far as this broker knows."""

    def reserve(self, reservation: Reservation) -> bool:
        """Does the holder have the name from now on?  False: somebody else has it."""

    def release(self, reservation: Reservation) -> None:
        """The holder has gone."""


class LocalRegistrar:
    """The registrar of a broker that is alone: what the broker itself has checked is right, and there is nobody else."""

    def agree(self, change: Change) -> None:
        pass

    def reserve(self, reservation: Reservation) -> bool:
        return True

    def release(self, reservation: Reservation) -> None:
        pass
