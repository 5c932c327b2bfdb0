"""The life of a broker's own row in the table of the members, as a state machine [B10.3, B10.8]."""

from __future__ import annotations

from typing import Protocol

from automat import TypeMachineBuilder


class RowMachine(Protocol):
    """Inputs: requests in the imperative, facts in the past tense."""

    def state(self) -> str:
        """The name of the present state."""

    def start(self) -> None:
        """This process wants to be the member."""

    def held(self) -> None:
        """Another process may be this member: its stamp is to be watched."""

    def taken_over(self) -> None:
        """Another member is about to take this one over."""

    def look(self) -> None:
        """The row is to be looked at again."""

    def joined(self) -> None:
        """The row is this process's."""

    def refused(self) -> None:
        """This process cannot be the member."""

    def operate(self) -> None:
        """Clients are served."""

    def quiesce(self) -> None:
        """Take no new clients."""

    def emptied(self) -> None:
        """No client is there any more."""

    def unquiesce(self) -> None:
        """Take clients again."""

    def leave(self) -> None:
        """The broker begins its stop."""

    def end(self) -> None:
        """All work is written; nobody needs this process any more."""

    def lost(self) -> None:
        """The row is not this process's any more."""


class RowCore(Protocol):
    """The work of the states."""

    def look_at_row(self) -> None:
        """Look at the row and take it; then ``joined``, ``held``, ``taken_over`` or ``refused`` comes."""

    def look_later(self, taken_over: bool) -> None:
        """Look again in a while."""

    def grant(self) -> None:
        """This process is the member."""

    def write(self, state: str) -> None:
        """Put the state into the row."""

    def write_end(self) -> None:
        """Put into the row how the broker has ended."""

    def give_up(self) -> None:
        """The row is lost: this broker begins anew."""

    def rest(self) -> None:
        """Nothing is waited for any more."""


class RowData:
    """The data of all states."""

    def __init__(self, core: RowCore) -> None:
        self.core = core


build = TypeMachineBuilder(RowMachine, RowData)

absent = build.state("absent")
looking = build.state("looking")
watching = build.state("watching another process")
waiting = build.state("waiting for a takeover")
initializing = build.state("INITIALIZING")
operating = build.state("OPERATING")
quiesce_started = build.state("QUIESCE_STARTED")
quiesce_completed = build.state("QUIESCE_COMPLETED")
shutdown_started = build.state("SHUTDOWN_STARTED")

STATES = (absent, looking, watching, waiting, initializing, operating, quiesce_started, quiesce_completed, shutdown_started)
OWN = (initializing, operating, quiesce_started, quiesce_completed, shutdown_started)
"""The states in which the row is this process's."""

for each in STATES:
    each.upon(RowMachine.state).loop().returns(each.name)
# Facts that come late, and requests that are met already.
for each in (absent, looking, watching, waiting):
    for late in (RowMachine.lost, RowMachine.emptied, RowMachine.leave, RowMachine.operate, RowMachine.quiesce, RowMachine.unquiesce):
        each.upon(late).loop().returns(None)
for late in (RowMachine.look, RowMachine.held, RowMachine.taken_over, RowMachine.joined, RowMachine.refused, RowMachine.end):
    absent.upon(late).loop().returns(None)
for each in OWN:
    each.upon(RowMachine.look).loop().returns(None)
for each in (initializing, operating, quiesce_completed, shutdown_started):
    each.upon(RowMachine.emptied).loop().returns(None)
for each in (initializing, quiesce_started, quiesce_completed, shutdown_started):
    each.upon(RowMachine.quiesce).loop().returns(None)
for each in (initializing, operating, shutdown_started):
    each.upon(RowMachine.unquiesce).loop().returns(None)
for each in (operating, quiesce_started, quiesce_completed, shutdown_started):
    each.upon(RowMachine.operate).loop().returns(None)
shutdown_started.upon(RowMachine.leave).loop().returns(None)


@absent.upon(RowMachine.start).to(looking)
@watching.upon(RowMachine.look).to(looking)
@waiting.upon(RowMachine.look).to(looking)
def look(machine: RowMachine, data: RowData) -> None:
    data.core.look_at_row()


@looking.upon(RowMachine.held).to(watching)
def watch(machine: RowMachine, data: RowData) -> None:
    data.core.look_later(taken_over=False)


@looking.upon(RowMachine.taken_over).to(waiting)
def wait(machine: RowMachine, data: RowData) -> None:
    data.core.look_later(taken_over=True)


@looking.upon(RowMachine.joined).to(initializing)
def begin(machine: RowMachine, data: RowData) -> None:
    data.core.grant()


looking.upon(RowMachine.refused).to(absent).returns(None)


@looking.upon(RowMachine.end).to(absent)
@watching.upon(RowMachine.end).to(absent)
@waiting.upon(RowMachine.end).to(absent)
def seek_no_more(machine: RowMachine, data: RowData) -> None:
    data.core.rest()


@initializing.upon(RowMachine.operate).to(operating)
@quiesce_started.upon(RowMachine.unquiesce).to(operating)
@quiesce_completed.upon(RowMachine.unquiesce).to(operating)
def serve(machine: RowMachine, data: RowData) -> None:
    data.core.write(operating.name)


@operating.upon(RowMachine.quiesce).to(quiesce_started)
def begin_to_quiesce(machine: RowMachine, data: RowData) -> None:
    data.core.write(quiesce_started.name)


@quiesce_started.upon(RowMachine.emptied).to(quiesce_completed)
def be_quiet(machine: RowMachine, data: RowData) -> None:
    data.core.write(quiesce_completed.name)


@initializing.upon(RowMachine.leave).to(shutdown_started)
@operating.upon(RowMachine.leave).to(shutdown_started)
@quiesce_started.upon(RowMachine.leave).to(shutdown_started)
@quiesce_completed.upon(RowMachine.leave).to(shutdown_started)
def begin_to_stop(machine: RowMachine, data: RowData) -> None:
    data.core.write(shutdown_started.name)


@shutdown_started.upon(RowMachine.end).to(absent)
def end_in_order(machine: RowMachine, data: RowData) -> None:
    data.core.write_end()


@initializing.upon(RowMachine.end).to(absent)
@operating.upon(RowMachine.end).to(absent)
@quiesce_started.upon(RowMachine.end).to(absent)
@quiesce_completed.upon(RowMachine.end).to(absent)
def end_at_once(machine: RowMachine, data: RowData) -> None:
    """The row stays as it is: its stamp stands still, and others take over what is there."""
    data.core.rest()


@initializing.upon(RowMachine.lost).to(absent)
@operating.upon(RowMachine.lost).to(absent)
@quiesce_started.upon(RowMachine.lost).to(absent)
@quiesce_completed.upon(RowMachine.lost).to(absent)
@shutdown_started.upon(RowMachine.lost).to(absent)
def lose(machine: RowMachine, data: RowData) -> None:
    data.core.rest()
    data.core.give_up()


make_row_machine = build.build()
