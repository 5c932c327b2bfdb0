"""The life of a broker, as a state machine (decision 15).

The work itself is behind :class:`LifeCore`.  A broker that was stopped, or that has failed, may start again.
"""

from __future__ import annotations

from typing import Protocol

from automat import TypeMachineBuilder


class LifeMachine(Protocol):
    """Inputs: requests in the imperative, facts in the past tense."""

    def state(self) -> str:
        """The name of the present state."""

    def start(self) -> None: ...

    def opened(self) -> None:
        """The place where the messages are is locked for this broker."""

    def wait(self) -> None:
        """Another broker is active: this one is passive until ``activate``."""

    def activate(self) -> None: ...

    def activated(self) -> None:
        """Clients are served."""

    def refused(self) -> None:
        """A step of the start has failed, and has left nothing behind."""

    def stop(self) -> None: ...

    def left(self) -> None:
        """Clients and other brokers need not be waited for any more."""

    def written(self) -> None:
        """All work is written, or the time for writing is over."""

    def fail(self) -> None:
        """The store or a lock is lost: nothing may be acknowledged any more."""

    def step_back(self) -> None:
        """Another broker may become active: acknowledge nothing more, end at once, and seek to be active anew."""

    def ended(self) -> None:
        """The activity from which the broker has stepped back has left nothing open."""


class LifeCore(Protocol):
    """The work of the states; no method may raise."""

    def open(self) -> None:
        """Show health and metrics, and lock the place of the messages; then ``opened`` or ``refused`` comes."""

    def seek_activation(self) -> None:
        """Ask whether this broker may become active; then ``activate`` or ``wait`` comes."""

    def activate(self) -> None:
        """Read the messages, take clients; then ``activated`` or ``refused`` comes."""

    def close(self) -> None:
        """Undo ``open``; the store was not loaded."""

    def leave(self) -> None:
        """Take no more clients, wait for clients that end by themselves, leave other brokers; then ``left`` comes."""

    def write(self) -> None:
        """Send all clients away and write everything to the disk; then ``written`` comes."""

    def seek_no_more(self) -> None:
        """Ask no longer whether this broker may become active."""

    def tell_stopped(self) -> None: ...

    def abandon(self) -> None:
        """Send all clients away and free the place of the messages, without writing or waiting."""


class LifeData:
    """The data of all states: a class around the core, since Automat takes no protocol."""

    def __init__(self, core: LifeCore) -> None:
        self.core = core


build = TypeMachineBuilder(LifeMachine, LifeData)

stopped = build.state("stopped")
starting = build.state("starting")
locked = build.state("locked")
passive = build.state("passive")
activating = build.state("activating")
unwanted = build.state("starting, to be stopped")
active = build.state("active")
stepping_back = build.state("becoming passive")
leaving = build.state("leaving")
stopping = build.state("stopping")
failed = build.state("failed")

STATES = (stopped, starting, locked, passive, activating, unwanted, active, stepping_back, leaving, stopping, failed)

for each in STATES:
    each.upon(LifeMachine.state).loop().returns(each.name)
# Requests that are met already.
for over in (leaving, stopping, unwanted):
    over.upon(LifeMachine.stop).loop().returns(None)
# A store that was asked to stop says itself when it has ended, also when its last write fails.
for nothing_to_lose in (stopped, failed, starting, stopping, stepping_back):
    nothing_to_lose.upon(LifeMachine.fail).loop().returns(None)
# Late facts of an earlier life.
stopped.upon(LifeMachine.ended).loop().returns(None)
for over in (stopped, failed, stepping_back):
    over.upon(LifeMachine.activate).loop().returns(None)
    over.upon(LifeMachine.left).loop().returns(None)
    over.upon(LifeMachine.written).loop().returns(None)


@stopped.upon(LifeMachine.start).to(starting)
@failed.upon(LifeMachine.start).to(starting)
@stepping_back.upon(LifeMachine.ended).to(starting)
def begin(machine: LifeMachine, data: LifeData) -> None:
    data.core.open()


@starting.upon(LifeMachine.opened).to(locked)
def ask(machine: LifeMachine, data: LifeData) -> None:
    data.core.seek_activation()


locked.upon(LifeMachine.wait).to(passive).returns(None)


@locked.upon(LifeMachine.activate).to(activating)
@passive.upon(LifeMachine.activate).to(activating)
def become_active(machine: LifeMachine, data: LifeData) -> None:
    data.core.activate()


activating.upon(LifeMachine.activated).to(active).returns(None)
starting.upon(LifeMachine.refused).to(failed).returns(None)
activating.upon(LifeMachine.refused).to(failed).returns(None)
activating.upon(LifeMachine.stop).to(unwanted).returns(None)
starting.upon(LifeMachine.stop).to(unwanted).returns(None)


@unwanted.upon(LifeMachine.refused).to(stopped)
@stopped.upon(LifeMachine.stop).loop()
@failed.upon(LifeMachine.stop).to(stopped)
def stop_idle(machine: LifeMachine, data: LifeData) -> None:
    data.core.tell_stopped()


@stepping_back.upon(LifeMachine.stop).to(stopped)
def stop_seeking(machine: LifeMachine, data: LifeData) -> None:
    data.core.seek_no_more()
    data.core.tell_stopped()


@unwanted.upon(LifeMachine.opened).to(stopped)
@locked.upon(LifeMachine.stop).to(stopped)
@passive.upon(LifeMachine.stop).to(stopped)
def stop_waiting(machine: LifeMachine, data: LifeData) -> None:
    data.core.close()
    data.core.tell_stopped()


@active.upon(LifeMachine.stop).to(leaving)
@unwanted.upon(LifeMachine.activated).to(leaving)
def leave(machine: LifeMachine, data: LifeData) -> None:
    data.core.leave()


@leaving.upon(LifeMachine.left).to(stopping)
def write(machine: LifeMachine, data: LifeData) -> None:
    data.core.write()


@stopping.upon(LifeMachine.written).to(stopped)
def end(machine: LifeMachine, data: LifeData) -> None:
    data.core.tell_stopped()


@locked.upon(LifeMachine.fail).to(failed)
@passive.upon(LifeMachine.fail).to(failed)
def fail_before_activation(machine: LifeMachine, data: LifeData) -> None:
    data.core.close()


@activating.upon(LifeMachine.fail).to(failed)
@active.upon(LifeMachine.fail).to(failed)
@active.upon(LifeMachine.step_back).to(stepping_back)
def fail(machine: LifeMachine, data: LifeData) -> None:
    data.core.abandon()


@unwanted.upon(LifeMachine.fail).to(stopped)
@leaving.upon(LifeMachine.fail).to(stopped)
def fail_before_the_stop_is_over(machine: LifeMachine, data: LifeData) -> None:
    data.core.abandon()
    data.core.tell_stopped()


make_life = build.build()
"""Makes a machine for a :class:`LifeData`; the machine begins in ``stopped``."""
