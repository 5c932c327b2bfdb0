"""The life of a replica of an active broker, as a state machine (decision 15).

The work itself is behind :class:`ReplicaCore`.  A replica ends once, and another one begins anew.
"""

from __future__ import annotations

from typing import Protocol

from automat import TypeMachineBuilder


class ReplicaMachine(Protocol):
    """Inputs: facts in the past tense."""

    def state(self) -> str:
        """The name of the present state."""

    def greeted(self) -> None:
        """The replica has said who it is."""

    def copied(self) -> None:
        """The replica has a copy of all files, durably."""

    def caught_up(self) -> None:
        """The replica has everything that was acknowledged without it."""

    def noted(self) -> None:
        """The note that another copy exists, and which, is durable here."""

    def completed(self) -> None:
        """The replica has noted durably that its copy is complete."""

    def ended(self) -> None:
        """The replica has gone, or is to go."""


class ReplicaCore(Protocol):
    """The work of the states; no method may raise."""

    def begin_copy(self) -> None:
        """Send a copy of all files, and all changes from now on."""

    def demand(self) -> None:
        """Let work wait for the replica from now on; then ``caught_up`` comes."""

    def note(self) -> None:
        """Note durably which the other copy is; then ``noted`` comes."""

    def complete(self) -> None:
        """Tell the replica that its copy is complete."""

    def show(self) -> None:
        """Tell the cluster of the pair."""

    def leave(self) -> None:
        """The replica cannot be complete: go on without it."""

    def lose(self) -> None:
        """The replica may be complete: go on with a proof only."""


class ReplicaData:
    """The data of all states: a class around the core, since Automat takes no protocol."""

    def __init__(self, core: ReplicaCore) -> None:
        self.core = core


build = TypeMachineBuilder(ReplicaMachine, ReplicaData)

greeting = build.state("greeting")
copying = build.state("copying")
catching_up = build.state("catching up")
noting = build.state("noting")
completing = build.state("completing")
in_sync = build.state("in sync")
over = build.state("over")

STATES = (greeting, copying, catching_up, noting, completing, in_sync, over)

for each in STATES:
    each.upon(ReplicaMachine.state).loop().returns(each.name)
# Late facts of a replica that has gone.
for late in (ReplicaMachine.copied, ReplicaMachine.caught_up, ReplicaMachine.noted, ReplicaMachine.ended):
    over.upon(late).loop().returns(None)


@greeting.upon(ReplicaMachine.greeted).to(copying)
def begin_copy(machine: ReplicaMachine, data: ReplicaData) -> None:
    data.core.begin_copy()


@copying.upon(ReplicaMachine.copied).to(catching_up)
def demand(machine: ReplicaMachine, data: ReplicaData) -> None:
    data.core.demand()


@catching_up.upon(ReplicaMachine.caught_up).to(noting)
def note(machine: ReplicaMachine, data: ReplicaData) -> None:
    data.core.note()


@noting.upon(ReplicaMachine.noted).to(completing)
def complete(machine: ReplicaMachine, data: ReplicaData) -> None:
    data.core.complete()


@completing.upon(ReplicaMachine.completed).to(in_sync)
def show(machine: ReplicaMachine, data: ReplicaData) -> None:
    data.core.show()


@greeting.upon(ReplicaMachine.ended).to(over)
@copying.upon(ReplicaMachine.ended).to(over)
@catching_up.upon(ReplicaMachine.ended).to(over)
def leave(machine: ReplicaMachine, data: ReplicaData) -> None:
    data.core.leave()


@noting.upon(ReplicaMachine.ended).to(over)
@completing.upon(ReplicaMachine.ended).to(over)
@in_sync.upon(ReplicaMachine.ended).to(over)
def lose(machine: ReplicaMachine, data: ReplicaData) -> None:
    data.core.lose()


make_replica = build.build()
"""Makes a machine for a :class:`ReplicaData`; the machine begins in ``greeting``."""
