"""How a broker gets the folder of a shared store and keeps it, as a state machine (decision 17).

The work itself is behind :class:`WaitingCore`.
"""

from __future__ import annotations

from typing import Protocol

from automat import TypeMachineBuilder


class WaitingMachine(Protocol):
    """Inputs: requests in the imperative, facts in the past tense."""

    def state(self) -> str:
        """The name of the present state."""

    def wait_as_primary(self) -> None: ...

    def wait_as_backup(self) -> None: ...

    def queued(self) -> None:
        """This backup is the next one."""

    def refused(self) -> None:
        """Another broker has what was asked for."""

    def taken(self) -> None:
        """The folder is this broker's."""

    def watched(self) -> None:
        """The folder still is."""

    def look(self) -> None:
        """The pause is over: look again."""

    def cease(self) -> None: ...


class WaitingCore(Protocol):
    """The work of the states; no method may raise."""

    def queue(self) -> None:
        """Ask for the place of the next backup.  It ends with ``queued`` or ``refused``."""

    def take(self) -> None:
        """Ask for the folder.  It ends with ``taken`` or ``refused``."""

    def show_backup(self) -> None:
        """Tell the cluster that there is a backup; more calls change nothing."""

    def look_later(self) -> None:
        """Pause; the pause ends with ``look``."""

    def hold(self) -> None:
        """Serve, and look after the lock."""

    def watch(self) -> None:
        """Look whether the folder is still this broker's.  It ends with ``watched``."""

    def want_no_more(self) -> None:
        """Backups need not keep off any longer."""

    def rest(self) -> None:
        """Ask for nothing more."""


class WaitingData:
    """The data that all states share."""

    def __init__(self, core: WaitingCore) -> None:
        self.core = core


build = TypeMachineBuilder(WaitingMachine, WaitingData)

idle = build.state("idle")
queueing = build.state("behind another backup")
next_backup = build.state("backup")
wanting = build.state("primary that waits")
holding = build.state("holder of the lock")

STATES = (idle, queueing, next_backup, wanting, holding)

for each in STATES:
    each.upon(WaitingMachine.state).loop().returns(each.name)
idle.upon(WaitingMachine.cease).loop().returns(None)


@idle.upon(WaitingMachine.wait_as_backup).to(queueing)
@queueing.upon(WaitingMachine.look).loop()
def queue(machine: WaitingMachine, data: WaitingData) -> None:
    data.core.queue()


@idle.upon(WaitingMachine.wait_as_primary).to(wanting)
@queueing.upon(WaitingMachine.queued).to(next_backup)
@next_backup.upon(WaitingMachine.look).loop()
@wanting.upon(WaitingMachine.look).loop()
def take(machine: WaitingMachine, data: WaitingData) -> None:
    data.core.take()


@next_backup.upon(WaitingMachine.refused).loop()
@wanting.upon(WaitingMachine.refused).loop()
def show(machine: WaitingMachine, data: WaitingData) -> None:
    data.core.show_backup()
    data.core.look_later()


@queueing.upon(WaitingMachine.refused).loop()
@holding.upon(WaitingMachine.watched).loop()
def look_later(machine: WaitingMachine, data: WaitingData) -> None:
    data.core.look_later()


@next_backup.upon(WaitingMachine.taken).to(holding)
@wanting.upon(WaitingMachine.taken).to(holding)
def hold(machine: WaitingMachine, data: WaitingData) -> None:
    data.core.hold()


@holding.upon(WaitingMachine.look).loop()
def watch(machine: WaitingMachine, data: WaitingData) -> None:
    data.core.watch()


@queueing.upon(WaitingMachine.cease).to(idle)
@next_backup.upon(WaitingMachine.cease).to(idle)
@holding.upon(WaitingMachine.cease).to(idle)
def rest(machine: WaitingMachine, data: WaitingData) -> None:
    data.core.rest()


@wanting.upon(WaitingMachine.cease).to(idle)
def leave(machine: WaitingMachine, data: WaitingData) -> None:
    data.core.want_no_more()
    data.core.rest()


make_waiting = build.build()
"""Makes a machine for a :class:`WaitingData`; it begins idle."""
