"""The network and the broker around the proof, as the proof sees them.

The network side carries bytes: a question and its answer are the bytes of a QUORUM_VOTE and its reply, under the handler's name
(``protocol-spec/``, chapter "Cluster packets").
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, auto
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias

if TYPE_CHECKING:
    from twisted.internet.defer import Deferred

    from mqbroker.ha.proof.meeting import Standing

Choice: TypeAlias = Callable[[bool], tuple[str, bytes] | None]
"""Chooses the handler's name and the question for a broker, None: the answer is empty, without a question.

True: it is a Java broker, which is asked as Java brokers ask each other.
"""


class Introduction(NamedTuple):
    """A broker of the cluster as a voter."""

    java: bool
    """Does the broker vote as Java brokers do, and remember nothing?"""
    votes: bool
    """Does the broker vote?  Not without persistence: then it forgets its promises, and has another node id after each start."""
    paired: bool
    """Do the promises of the broker need the replica of its own pair?"""


class UnreachableError(Exception):
    """Nobody answers: nobody listens at that place, or nothing came back in time."""


class SilentError(UnreachableError):
    """Somebody takes connections at that place, and gives no answer: a process that stands still, or reads its journal."""


class RefusedError(Exception):
    """Somebody is there, and cannot be asked: the cluster password is wrong, or there is no agreement on TLS."""


class Network(Protocol):
    """The ways to others.

    An answer may take as long as it likes: whoever asks has a limit, and cancels the result then.  A result fails with
    :class:`UnreachableError` when nobody answers.  Any other failure says that somebody is there whose answer is of no use.
    """

    def ask_copy(self, connector: str, handler: str, question: bytes) -> Deferred[bytes]:
        """Ask the copy at ``connector``, the text of a note, over a connection that is there already and at its place.

        The first answer counts.  Fails at once when there is no such connection and nobody listens at the place; a result that is cancelled
        fails with SilentError if somebody has taken a connection there meanwhile.
        """

    def ask_voter(self, node_id: str, choose: Choice) -> Deferred[bytes]:
        """Ask the active broker of ``node_id``; ``choose`` is called once that broker has said of which kind it is."""


class Purpose(Enum):
    """Why a copy seeks the proof."""

    START = auto()
    """The broker starts with complete data."""
    TAKE_OVER = auto()
    """A replica in sync has lost its active broker, or was told to take over."""
    GO_ON = auto()
    """An active broker has lost its replica."""
    COME_BACK = auto()
    """An active backup has stopped so that its replica goes on, and seeks anew in the same life: the replica may have died meanwhile."""


class Owner(Protocol):
    """The broker around a copy.  No method may raise.  The seeker may be asked for the next thing from within any of them."""

    def begin_seeking(self) -> Deferred[None]:
        """A replica answers its active broker no more, from this call on, and leaves it.  Acceptors are opened for HA packets of brokers
        only: any other connection ends at its first packet.  An active broker is not asked for this before :meth:`end_clients`.

        The result fires once the voters can be told: after everything that was received is written.  Until then nobody is asked.
        """

    def end_clients(self) -> None:
        """An active broker was without proof for too long: its connections end without answers, and its activity is over.

        The store ends as it is fenced (``abort``).  Acceptors take HA packets only from now on, and the seeker goes on seeking.
        """

    def look_around(self) -> None:
        """Nobody settles a search now, and after a pause it goes on.  Another copy of the node may have become active without this one:
        whoever finds a broker of the node lets the seeker meet it (:meth:`mqbroker.ha.proof.seeking.Seeker.meet`)."""

    def granted(self, sequence: int, text: str) -> None:
        """The proof is there, and ``sequence`` is durable: a broker that is active answers what has waited, any other becomes active.

        ``text`` is for the log.
        """

    def refused(self, reason: str, other: Standing | None) -> None:
        """The copy is passive: acceptors close, and it registers at the copy that is active and copies anew.

        ``other`` is the copy in whose favour that is, if it has said so itself.  As long as it finds nobody
        active it visits the other copy (:meth:`mqbroker.ha.proof.seeking.Seeker.visit`), and seeks again if it
        :attr:`~mqbroker.ha.proof.seeking.Seeker.may_seek`.
        """

    def stop_copying(self) -> None:
        """The copy was asked to give itself up: a replica, in sync or not, leaves its active broker and writes nothing more of it."""

    def failed(self, reason: str) -> None:
        """The record cannot be written: the broker stops at once, as after a failed write of its journal."""
