"""The life of a session factory's connection, as one state machine.

The work itself (attempts, sessions, listeners) is behind :class:`LifecycleCore`; whether an attempt is the last one is decided there,
and told by the choice of the input.
"""

from __future__ import annotations

from typing import Protocol

from automat import TypeMachineBuilder

from mqclient.core.connection.connection import Connection
from mqclient.core.runtime import Timer
from mqclient.errors import MQError


class Lifecycle(Protocol):
    """Inputs: requests in the imperative, facts in the past tense."""

    def open(self) -> None:
        """Make the first connection."""

    def close(self) -> None:
        """End for good, on request."""

    def connected(self, connection: Connection) -> None:
        """An attempt has succeeded."""

    def attempt_failed(self, error: MQError, pause: float) -> None:
        """A round of attempts has failed; the next is due in ``pause`` seconds."""

    def attempts_exhausted(self, error: MQError) -> None:
        """A round of attempts has failed, and it was the last."""

    def retry_due(self) -> None: ...

    def connection_lost(self, error: MQError) -> None:
        """The connection has failed, and the settings ask to reconnect."""

    def connection_lost_for_good(self, error: MQError) -> None:
        """The connection has failed, and the settings do not ask to reconnect."""

    def sessions_restored(self) -> None:
        """All sessions live on the new connection."""


class LifecycleCore(Protocol):
    """The session factory, as its states see it; no method may raise."""

    def begin_round(self) -> None:
        """Start a round of attempts; it ends with ``connected``, ``attempt_failed`` or ``attempts_exhausted``."""

    def cancel_round(self) -> None: ...

    def schedule_retry(self, pause: float) -> Timer: ...

    def adopt(self, connection: Connection) -> None:
        """``connection`` is the one in use from now on."""

    def drop(self, connection: Connection) -> None:
        """``connection`` came too late."""

    def opened(self) -> None:
        """The first connection is there."""

    def could_not_open(self, error: MQError) -> None: ...

    def failure_detected(self, error: MQError) -> None:
        """Lock the sessions, tell the listeners, prepare the attempts."""

    def restore_sessions(self) -> None:
        """Start to reattach or recreate; it ends with ``sessions_restored`` or with a lost connection."""

    def recovered(self) -> None:
        """Let the sessions go on, tell the listeners."""

    def given_up(self, error: MQError) -> None:
        """Close the sessions, tell the listeners."""

    def closed_by_request(self) -> None:
        """Close the connection if there is one, and all sessions."""


class LifecycleData:
    """The data that all states share."""

    def __init__(self, core: LifecycleCore) -> None:
        self.core = core
        self.retry: Timer | None = None

    def cancel_retry(self) -> None:
        retry, self.retry = self.retry, None
        if retry is not None:
            retry.cancel()


build = TypeMachineBuilder(Lifecycle, LifecycleData)

idle = build.state("idle")
connecting = build.state("connecting")
waiting_to_connect = build.state("waiting to connect")
connected = build.state("connected")
reconnecting = build.state("reconnecting")
waiting_to_reconnect = build.state("waiting to reconnect")
restoring = build.state("restoring sessions")
failed = build.state("failed")
closed = build.state("closed")

# Late events in states that are final.
for over in (failed, closed):
    over.upon(Lifecycle.attempt_failed).loop().returns(None)
    over.upon(Lifecycle.attempts_exhausted).loop().returns(None)
    over.upon(Lifecycle.retry_due).loop().returns(None)
    over.upon(Lifecycle.connection_lost).loop().returns(None)
    over.upon(Lifecycle.connection_lost_for_good).loop().returns(None)
    over.upon(Lifecycle.sessions_restored).loop().returns(None)
for searching in (connecting, waiting_to_connect, reconnecting, waiting_to_reconnect):
    searching.upon(Lifecycle.connection_lost).loop().returns(None)
    searching.upon(Lifecycle.connection_lost_for_good).loop().returns(None)
    searching.upon(Lifecycle.sessions_restored).loop().returns(None)
closed.upon(Lifecycle.close).loop().returns(None)
connected.upon(Lifecycle.sessions_restored).loop().returns(None)


@idle.upon(Lifecycle.open).to(connecting)
def begin_first_round(machine: Lifecycle, data: LifecycleData) -> None:
    data.core.begin_round()


@idle.upon(Lifecycle.close).to(closed)
def close_unopened(machine: Lifecycle, data: LifecycleData) -> None:
    data.core.closed_by_request()


@connecting.upon(Lifecycle.connected).to(connected)
def first_connection(machine: Lifecycle, data: LifecycleData, connection: Connection) -> None:
    data.core.adopt(connection)
    data.core.opened()


@connecting.upon(Lifecycle.attempt_failed).to(waiting_to_connect)
def wait_to_connect(machine: Lifecycle, data: LifecycleData, error: MQError, pause: float) -> None:
    data.retry = data.core.schedule_retry(pause)


@connecting.upon(Lifecycle.attempts_exhausted).to(failed)
def report_no_connection(machine: Lifecycle, data: LifecycleData, error: MQError) -> None:
    data.core.could_not_open(error)


@waiting_to_connect.upon(Lifecycle.retry_due).to(connecting)
def connect_again(machine: Lifecycle, data: LifecycleData) -> None:
    data.retry = None
    data.core.begin_round()


@connected.upon(Lifecycle.connection_lost).to(reconnecting)
def begin_reconnect(machine: Lifecycle, data: LifecycleData, error: MQError) -> None:
    data.core.failure_detected(error)
    data.core.begin_round()


@connected.upon(Lifecycle.connection_lost_for_good).to(failed)
def fail_without_reconnect(machine: Lifecycle, data: LifecycleData, error: MQError) -> None:
    data.core.failure_detected(error)
    data.core.given_up(error)


@reconnecting.upon(Lifecycle.connected).to(restoring)
def begin_restore(machine: Lifecycle, data: LifecycleData, connection: Connection) -> None:
    data.core.adopt(connection)
    data.core.restore_sessions()


@reconnecting.upon(Lifecycle.attempt_failed).to(waiting_to_reconnect)
def wait_to_reconnect(machine: Lifecycle, data: LifecycleData, error: MQError, pause: float) -> None:
    data.retry = data.core.schedule_retry(pause)


@reconnecting.upon(Lifecycle.attempts_exhausted).to(failed)
def give_up(machine: Lifecycle, data: LifecycleData, error: MQError) -> None:
    data.core.given_up(error)


@waiting_to_reconnect.upon(Lifecycle.retry_due).to(reconnecting)
def reconnect_again(machine: Lifecycle, data: LifecycleData) -> None:
    data.retry = None
    data.core.begin_round()


@restoring.upon(Lifecycle.sessions_restored).to(connected)
def finish_restore(machine: Lifecycle, data: LifecycleData) -> None:
    data.core.recovered()


@restoring.upon(Lifecycle.attempt_failed).to(waiting_to_reconnect)
def restore_later(machine: Lifecycle, data: LifecycleData, error: MQError, pause: float) -> None:
    data.retry = data.core.schedule_retry(pause)


@restoring.upon(Lifecycle.attempts_exhausted).to(failed)
def give_up_restoring(machine: Lifecycle, data: LifecycleData, error: MQError) -> None:
    data.core.given_up(error)


# While sessions are restored, the task that does so finds out about a lost connection itself, and reports a failed attempt.
restoring.upon(Lifecycle.connection_lost).loop().returns(None)
restoring.upon(Lifecycle.connection_lost_for_good).loop().returns(None)


@failed.upon(Lifecycle.connected).to(failed)
@closed.upon(Lifecycle.connected).to(closed)
def drop_late_connection(machine: Lifecycle, data: LifecycleData, connection: Connection) -> None:
    data.core.drop(connection)


@connecting.upon(Lifecycle.close).to(closed)
@reconnecting.upon(Lifecycle.close).to(closed)
def stop_attempting(machine: Lifecycle, data: LifecycleData) -> None:
    data.core.cancel_round()
    data.core.closed_by_request()


@waiting_to_connect.upon(Lifecycle.close).to(closed)
@waiting_to_reconnect.upon(Lifecycle.close).to(closed)
def stop_waiting(machine: Lifecycle, data: LifecycleData) -> None:
    data.cancel_retry()
    data.core.closed_by_request()


@connected.upon(Lifecycle.close).to(closed)
@restoring.upon(Lifecycle.close).to(closed)
@failed.upon(Lifecycle.close).to(closed)
def close_connection(machine: Lifecycle, data: LifecycleData) -> None:
    data.core.cancel_round()
    data.core.closed_by_request()


make_lifecycle = build.build()
