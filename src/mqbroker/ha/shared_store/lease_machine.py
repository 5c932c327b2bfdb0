"""The lease of a broker that is active, as its holder sees it, as a state machine (decision 17).

Source: the Artemis manual, chapter on high availability, the shared store in a database.  The work itself is behind :class:`LeaseCore`.
"""

from __future__ import annotations

from typing import Protocol

from automat import TypeMachineBuilder


class LeaseMachine(Protocol):
    """Inputs: facts in the past tense, requests in the imperative."""

    def state(self) -> str:
        """The name of the present state."""

    def acquired(self) -> None:
        """The row names this broker."""

    def renewed(self) -> None:
        """And still does."""

    def refused(self) -> None:
        """The row names another broker, or nobody."""

    def unanswered(self) -> None:
        """The database did not answer, and the lease lasts until it is asked again."""

    def ran_out(self) -> None:
        """The database did not answer, and the lease may have ended when it is asked again."""

    def release(self) -> None:
        """The lease is wanted no more."""


class LeaseCore(Protocol):
    """The work of the states; no method may call the machine, and only ``give_back_row`` may raise."""

    def renew_from_now_on(self) -> None: ...

    def renew_no_more(self) -> None: ...

    def note_silence(self) -> None:
        """Write to the log that the lease was not renewed."""

    def tell_lost(self) -> None:
        """The broker may not be active any more."""

    def give_back_row(self) -> None:
        """Others may have the lease at once."""


class LeaseData:
    """The data that all states share."""

    def __init__(self, core: LeaseCore) -> None:
        self.core = core


build = TypeMachineBuilder(LeaseMachine, LeaseData)

free = build.state("free")
held = build.state("held")
lost = build.state("lost")

STATES = (free, held, lost)

for each in STATES:
    each.upon(LeaseMachine.state).loop().returns(each.name)
free.upon(LeaseMachine.release).loop().returns(None)
# A renewal may be under way when the lease is given back.
for each in (free, lost):
    for late in (LeaseMachine.renewed, LeaseMachine.refused, LeaseMachine.unanswered, LeaseMachine.ran_out):
        each.upon(late).loop().returns(None)
held.upon(LeaseMachine.renewed).loop().returns(None)


@free.upon(LeaseMachine.acquired).to(held)
def keep(machine: LeaseMachine, data: LeaseData) -> None:
    data.core.renew_from_now_on()


@held.upon(LeaseMachine.unanswered).loop()
def note(machine: LeaseMachine, data: LeaseData) -> None:
    data.core.note_silence()


@held.upon(LeaseMachine.refused).to(lost)
@held.upon(LeaseMachine.ran_out).to(lost)
def lose(machine: LeaseMachine, data: LeaseData) -> None:
    data.core.renew_no_more()
    data.core.tell_lost()


@held.upon(LeaseMachine.release).to(free)
def give_back(machine: LeaseMachine, data: LeaseData) -> None:
    data.core.renew_no_more()
    data.core.give_back_row()


@lost.upon(LeaseMachine.release).to(free)
def leave(machine: LeaseMachine, data: LeaseData) -> None:
    """Nothing is given back: the row may name this broker still, and its writes are refused when it names another one."""


make_lease = build.build()
"""Makes a machine for a :class:`LeaseData`; nobody has the lease at first."""
