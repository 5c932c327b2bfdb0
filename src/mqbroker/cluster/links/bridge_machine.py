"""The life of one bridge, as a state machine (decision 17).

The effects are behind :class:`BridgeCore`, which also decides whether an attempt was the last one, and chooses the input accordingly.
"""

from __future__ import annotations

from typing import Protocol

from automat import TypeMachineBuilder

from mqbroker.messaging.ports import Cancellable
from mqclient.errors import MQError


class BridgeMachine(Protocol):
    """Inputs: requests in the imperative, facts in the past tense."""

    def start(self) -> None: ...

    def stop(self) -> None:
        """Let outstanding acknowledgements arrive, then close the link."""

    def pause(self) -> None:
        """Keep the link, but take no messages."""

    def resume(self) -> None: ...

    def connected(self) -> None:
        """The session is made, and the user of the bridge is ready."""

    def connected_while_paused(self) -> None:
        """As ``connected``, but the bridge was paused before."""

    def attempt_failed(self, error: MQError, pause: float) -> None:
        """The next attempt is due in ``pause`` seconds."""

    def attempts_exhausted(self, error: MQError) -> None:
        """An attempt has failed, and it was the last."""

    def retry_due(self) -> None: ...

    def target_appeared(self) -> None:
        """The target is there: the attempt that the bridge waits for is due in the next turn."""

    def lost(self, error: MQError, pause: float) -> None:
        """The link has failed; the next attempt is due in ``pause`` seconds."""

    def settled(self) -> None:
        """No acknowledgement is outstanding any more."""


class BridgeCore(Protocol):
    """The effects of the machine; no method may raise."""

    def entered(self, state: str) -> None:
        """The name of the state that holds from now on, for the effects too: a machine answers no question within a transition."""

    def begin_attempt(self) -> None:
        """The attempt ends with ``connected``, ``connected_while_paused``, ``attempt_failed`` or ``attempts_exhausted``."""

    def cancel_attempt(self) -> None: ...

    def schedule_retry(self, pause: float) -> Cancellable: ...

    def forward(self) -> None:
        """Take messages from the queue."""

    def hold(self) -> None:
        """The bridge is paused, now or as soon as it is connected."""

    def release(self) -> None:
        """The bridge is not paused any more."""

    def tell_started(self) -> None: ...

    def tell_failed_attempt(self, error: MQError) -> None: ...

    def tell_lost(self, error: MQError) -> None: ...

    def tell_gave_up(self, error: MQError) -> None: ...

    def settle(self) -> None:
        """Take no more messages and wait for outstanding acknowledgements, which ends with ``settled``."""

    def close_link(self) -> None: ...

    def tell_stopped(self) -> None: ...

    def start_again(self) -> None:
        """Start as soon as the bridge is stopped."""


class BridgeData:
    """The data of all states."""

    def __init__(self, core: BridgeCore) -> None:
        self.core = core
        self.retry: Cancellable | None = None

    def cancel_retry(self) -> None:
        retry, self.retry = self.retry, None
        if retry is not None:
            retry.cancel()


build = TypeMachineBuilder(BridgeMachine, BridgeData)

stopped = build.state("stopped")
connecting = build.state("connecting")
started = build.state("started")
paused = build.state("paused")
waiting = build.state("waiting")
stopping = build.state("stopping")
failed = build.state("failed")

# Requests that are met already.
for running in (connecting, started, paused, waiting):
    running.upon(BridgeMachine.start).loop().returns(None)
started.upon(BridgeMachine.resume).loop().returns(None)
paused.upon(BridgeMachine.pause).loop().returns(None)
stopping.upon(BridgeMachine.stop).loop().returns(None)
# Late facts.
for over in (stopped, failed):
    over.upon(BridgeMachine.lost).loop().returns(None)
    over.upon(BridgeMachine.settled).loop().returns(None)


@stopped.upon(BridgeMachine.start).to(connecting)
@failed.upon(BridgeMachine.start).to(connecting)
def begin(machine: BridgeMachine, data: BridgeData) -> None:
    data.core.entered(connecting.name)
    data.core.begin_attempt()


@stopped.upon(BridgeMachine.stop).loop()
@failed.upon(BridgeMachine.stop).to(stopped)
def stop_idle(machine: BridgeMachine, data: BridgeData) -> None:
    data.core.entered(stopped.name)
    data.core.tell_stopped()


@stopped.upon(BridgeMachine.pause).loop()
@connecting.upon(BridgeMachine.pause).loop()
@waiting.upon(BridgeMachine.pause).loop()
@stopping.upon(BridgeMachine.pause).loop()
@failed.upon(BridgeMachine.pause).loop()
def pause_later(machine: BridgeMachine, data: BridgeData) -> None:
    data.core.hold()


@stopped.upon(BridgeMachine.resume).loop()
@connecting.upon(BridgeMachine.resume).loop()
@waiting.upon(BridgeMachine.resume).loop()
@stopping.upon(BridgeMachine.resume).loop()
@failed.upon(BridgeMachine.resume).loop()
def do_not_pause_later(machine: BridgeMachine, data: BridgeData) -> None:
    data.core.release()


@connecting.upon(BridgeMachine.connected).to(started)
def begin_to_forward(machine: BridgeMachine, data: BridgeData) -> None:
    data.core.entered(started.name)
    data.core.forward()
    data.core.tell_started()


@connecting.upon(BridgeMachine.connected_while_paused).to(paused)
def begin_paused(machine: BridgeMachine, data: BridgeData) -> None:
    data.core.entered(paused.name)
    data.core.forward()
    data.core.tell_started()


@connecting.upon(BridgeMachine.attempt_failed).to(waiting)
def wait_after_failure(machine: BridgeMachine, data: BridgeData, error: MQError, pause: float) -> None:
    data.core.entered(waiting.name)
    data.retry = data.core.schedule_retry(pause)
    data.core.tell_failed_attempt(error)


@connecting.upon(BridgeMachine.attempts_exhausted).to(failed)
def give_up(machine: BridgeMachine, data: BridgeData, error: MQError) -> None:
    data.core.entered(failed.name)
    data.core.tell_gave_up(error)


@connecting.upon(BridgeMachine.stop).to(stopped)
def stop_connecting(machine: BridgeMachine, data: BridgeData) -> None:
    data.core.entered(stopped.name)
    data.core.cancel_attempt()
    data.core.tell_stopped()


@started.upon(BridgeMachine.pause).to(paused)
def pause_now(machine: BridgeMachine, data: BridgeData) -> None:
    data.core.entered(paused.name)
    data.core.hold()


@paused.upon(BridgeMachine.resume).to(started)
def resume_now(machine: BridgeMachine, data: BridgeData) -> None:
    data.core.entered(started.name)
    data.core.release()


@started.upon(BridgeMachine.lost).to(waiting)
@paused.upon(BridgeMachine.lost).to(waiting)
def wait_after_loss(machine: BridgeMachine, data: BridgeData, error: MQError, pause: float) -> None:
    data.core.entered(waiting.name)
    # A listener may stop the bridge at once: the timer must be there by then.
    data.retry = data.core.schedule_retry(pause)
    data.core.tell_lost(error)


@waiting.upon(BridgeMachine.retry_due).to(connecting)
def try_again(machine: BridgeMachine, data: BridgeData) -> None:
    data.core.entered(connecting.name)
    data.retry = None
    data.core.begin_attempt()


@waiting.upon(BridgeMachine.target_appeared).loop()
def wait_no_longer(machine: BridgeMachine, data: BridgeData) -> None:
    data.cancel_retry()
    data.retry = data.core.schedule_retry(0.0)


@waiting.upon(BridgeMachine.stop).to(stopped)
def stop_waiting(machine: BridgeMachine, data: BridgeData) -> None:
    data.core.entered(stopped.name)
    data.cancel_retry()
    data.core.tell_stopped()


@started.upon(BridgeMachine.stop).to(stopping)
@paused.upon(BridgeMachine.stop).to(stopping)
def finish(machine: BridgeMachine, data: BridgeData) -> None:
    data.core.entered(stopping.name)
    data.core.settle()


@stopping.upon(BridgeMachine.settled).to(stopped)
def close_settled(machine: BridgeMachine, data: BridgeData) -> None:
    data.core.entered(stopped.name)
    data.core.close_link()
    data.core.tell_stopped()


@stopping.upon(BridgeMachine.lost).to(stopped)
def lost_while_stopping(machine: BridgeMachine, data: BridgeData, error: MQError, pause: float) -> None:
    data.core.entered(stopped.name)
    data.core.tell_stopped()


@stopping.upon(BridgeMachine.start).loop()
def start_later(machine: BridgeMachine, data: BridgeData) -> None:
    data.core.start_again()


make_bridge_machine = build.build()
"""Makes a machine for a :class:`BridgeData`, in the state stopped."""
