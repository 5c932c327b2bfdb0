"""How a copy gets the proof that it alone may be active, as a state machine (decision 17).

The work itself is behind :class:`SeekingCore`.
"""

from __future__ import annotations

from typing import Protocol

from automat import TypeMachineBuilder


class SeekingMachine(Protocol):
    """Inputs: requests in the imperative, facts in the past tense."""

    def state(self) -> str:
        """The name of the present state."""

    def seek(self) -> None: ...

    def unanswered(self) -> None:
        """The other copy does not settle it."""

    def proven(self) -> None:
        """No other copy is or can become active."""

    def undecided(self) -> None:
        """Nobody settles it now."""

    def again(self) -> None:
        """The pause is over: ask again."""

    def refused(self) -> None:
        """Another copy goes on."""

    def raised(self) -> None:
        """The sequence is durable."""

    def yield_(self) -> None:
        """Give these data up, in favour of another copy."""

    def yielded(self) -> None:
        """The data are given up, durably."""

    def cease(self) -> None:
        """The broker stops, or hands over: it is passive, and its data stay what they are."""


class SeekingCore(Protocol):
    """The work of the states; no method may raise."""

    def entered(self, state: str) -> None:
        """The name of the state that holds from now on, for the work too: a machine answers no question within a transition."""

    def ask_other(self) -> None:
        """Ask the other copy.  It ends with ``proven``, ``unanswered``, ``undecided`` or ``refused``."""

    def ask_for_sequence(self) -> None:
        """Ask the voters or the lock manager; the question ends with ``proven``, ``undecided`` or ``refused``."""

    def pause(self) -> None:
        """Pause; the pause ends with ``again``."""

    def raise_sequence(self) -> None:
        """Raise the sequence durably; that ends with ``raised``."""

    def hold(self) -> None:
        """Tell the owner that it may be active."""

    def give_up(self) -> None:
        """Give the copy up durably; that ends with ``yielded``."""

    def tell_refused(self) -> None:
        """Tell the owner that another copy goes on."""

    def tell_yielded(self) -> None:
        """Answer who has asked for it, and tell the owner if it was not passive."""

    def rest(self) -> None:
        """Ask for nothing more."""


class SeekingData:
    """The data that all states share."""

    def __init__(self, core: SeekingCore) -> None:
        self.core = core


build = TypeMachineBuilder(SeekingMachine, SeekingData)

passive = build.state("passive")
asking = build.state("asking the other copy")
voting = build.state("asking for the sequence")
pausing = build.state("waiting to ask again")
raising = build.state("raising the sequence")
holding = build.state("proven")
yielding = build.state("giving up")

STATES = (passive, asking, voting, pausing, raising, holding, yielding)
SEEKING = (asking, voting, pausing)

for each in STATES:
    each.upon(SeekingMachine.state).loop().returns(each.name)
passive.upon(SeekingMachine.cease).loop().returns(None)
# One search at a time: its end is told.
for busy in (*SEEKING, raising, yielding):
    busy.upon(SeekingMachine.seek).loop().returns(None)
# The present state, which another copy is told, says enough.
raising.upon(SeekingMachine.yield_).loop().returns(None)
yielding.upon(SeekingMachine.yield_).loop().returns(None)
# Facts that come when they no longer matter.
for over in (passive, holding, raising, yielding):
    for fact in (
        SeekingMachine.unanswered,
        SeekingMachine.proven,
        SeekingMachine.undecided,
        SeekingMachine.again,
        SeekingMachine.refused,
    ):
        over.upon(fact).loop().returns(None)
for elsewhere in (passive, *SEEKING, holding, yielding):
    elsewhere.upon(SeekingMachine.raised).loop().returns(None)
for elsewhere in (passive, *SEEKING, raising, holding):
    elsewhere.upon(SeekingMachine.yielded).loop().returns(None)
for waiting in (asking, voting):
    waiting.upon(SeekingMachine.again).loop().returns(None)
for after in (voting, pausing):
    after.upon(SeekingMachine.unanswered).loop().returns(None)
pausing.upon(SeekingMachine.undecided).loop().returns(None)


@passive.upon(SeekingMachine.seek).to(asking)
@holding.upon(SeekingMachine.seek).to(asking)
@pausing.upon(SeekingMachine.again).to(asking)
def ask_other(machine: SeekingMachine, data: SeekingData) -> None:
    data.core.entered(asking.name)
    data.core.ask_other()


@asking.upon(SeekingMachine.unanswered).to(voting)
def ask_for_sequence(machine: SeekingMachine, data: SeekingData) -> None:
    data.core.entered(voting.name)
    data.core.ask_for_sequence()


@asking.upon(SeekingMachine.undecided).to(pausing)
@voting.upon(SeekingMachine.undecided).to(pausing)
def pause(machine: SeekingMachine, data: SeekingData) -> None:
    data.core.entered(pausing.name)
    data.core.pause()


@asking.upon(SeekingMachine.proven).to(raising)
@voting.upon(SeekingMachine.proven).to(raising)
@pausing.upon(SeekingMachine.proven).to(raising)
def raise_sequence(machine: SeekingMachine, data: SeekingData) -> None:
    data.core.entered(raising.name)
    data.core.raise_sequence()


@raising.upon(SeekingMachine.raised).to(holding)
def hold(machine: SeekingMachine, data: SeekingData) -> None:
    data.core.entered(holding.name)
    data.core.hold()


@asking.upon(SeekingMachine.refused).to(passive)
@voting.upon(SeekingMachine.refused).to(passive)
@pausing.upon(SeekingMachine.refused).to(passive)
def tell_refused(machine: SeekingMachine, data: SeekingData) -> None:
    data.core.entered(passive.name)
    data.core.tell_refused()


@passive.upon(SeekingMachine.yield_).to(yielding)
@asking.upon(SeekingMachine.yield_).to(yielding)
@voting.upon(SeekingMachine.yield_).to(yielding)
@pausing.upon(SeekingMachine.yield_).to(yielding)
@holding.upon(SeekingMachine.yield_).to(yielding)
def give_up(machine: SeekingMachine, data: SeekingData) -> None:
    data.core.entered(yielding.name)
    data.core.give_up()


@yielding.upon(SeekingMachine.yielded).to(passive)
def tell_yielded(machine: SeekingMachine, data: SeekingData) -> None:
    data.core.entered(passive.name)
    data.core.tell_yielded()


@asking.upon(SeekingMachine.cease).to(passive)
@voting.upon(SeekingMachine.cease).to(passive)
@pausing.upon(SeekingMachine.cease).to(passive)
@raising.upon(SeekingMachine.cease).to(passive)
@holding.upon(SeekingMachine.cease).to(passive)
@yielding.upon(SeekingMachine.cease).to(passive)
def rest(machine: SeekingMachine, data: SeekingData) -> None:
    data.core.entered(passive.name)
    data.core.rest()


make_seeking = build.build()
"""Makes a machine for a :class:`SeekingData`; it begins passive."""
