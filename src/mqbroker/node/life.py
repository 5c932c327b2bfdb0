"""The life of a broker: it starts, waits until it may be active, serves and stops, and may do so again (decision 3)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from twisted.internet.defer import Deferred, gatherResults, succeed
from twisted.logger import Logger

from mqbroker.config.instance.broker_settings import BrokerSettings
from mqbroker.node.assembly import ActiveBroker
from mqbroker.node.candidate import Candidate
from mqbroker.node.life_machine import LifeData, active, failed, leaving, make_life, stopped, stopping
from mqbroker.node.parts import EndingWriter, Listeners, Parts, StartError
from mqbroker.node.stores import written_folders
from mqbroker.process.disk_errors import advice
from mqbroker.storage.disk.diskwriter import DiskWriter
from mqbroker.storage.errors import StorageError

if TYPE_CHECKING:
    from mqbroker.messaging.ports import Cancellable, Store
    from mqbroker.server.observation.metrics import MetricsSource
    from mqbroker.server.transport.cluster_channel import ClusterChannel
    from mqbroker.server.transport.waiting import WaitingServer

log = Logger(namespace="mqbroker")

LISTEN_SECONDS = 1.0
"""Between two attempts of a passive broker to open acceptors for others whose ports are taken."""

STOP_SECONDS = 10.0
"""Seconds that an orderly stop waits for the disk before it gives up."""


class BrokerLife:
    """One broker of ``parts``, from start to stop: it does the work of the states of :mod:`mqbroker.node.life_machine`.

    The pages of health and metrics live as long as the broker is not stopped; store, messaging, server, listeners and links to other
    brokers belong to one activation.  ``tell_failed`` gets the reason why the broker cannot go on, also when an activation that was
    granted later fails; ``stop_wanted`` is called when management asks for an orderly stop; ``tell_active`` is called at each activation.
    """

    def __init__(
        self,
        settings: BrokerSettings,
        parts: Parts,
        tell_failed: Callable[[str], object],
        stop_wanted: Callable[[], object],
        tell_active: Callable[[], object] = lambda: None,
    ) -> None:
        self.settings = settings
        self._parts = parts
        self._tell_failed = tell_failed
        self._stop_wanted = stop_wanted
        self._tell_active = tell_active
        self._machine = make_life(LifeData(self))
        self._pages = parts.make_pages(self)
        self._store: Store
        self._active: ActiveBroker | None = None
        self._writers: list[EndingWriter] = []
        self._error: Exception | None = None
        """The reason of the last refused start."""
        self._start_waits = False
        """Does :meth:`start` run, whose caller gets the error?"""
        self._era = object()
        """Tells the stores of several starts apart."""
        self._closing: list[Deferred[Any]] = []
        """Pages and listeners that a stop waits for, beside the store."""
        self._waiting: list[Deferred[None]] = []
        """Results of :meth:`stop` that complete with the end of the stop."""
        self._returns = False
        """Does the broker start again after the stop that is under way?"""
        self._isolated = ""
        """Why the broker has stopped, or is about to, until the network check gets an answer; empty when it has one."""
        self._asks_network = False
        """May the broker become active as soon as the network check gets an answer?"""
        self._at_rest = True
        """Has the last stop told its end?"""
        self._waiting_listeners: tuple[WaitingServer, Listeners] | None = None
        """Server and listeners for other brokers while this one is passive; None when there are none."""
        self._retired: WaitingServer | None = None
        """The last such server, after the broker has become active: its peers may still hear an answer."""
        self._listen_timer: Cancellable | None = None
        """Until such listeners are tried again."""
        self._listen_problem = ""
        """Why such listeners could not be opened, as the log has it."""

    # --- state and figures

    @property
    def state(self) -> str:
        """The name of the present state.  The work of a state must not ask for it."""
        return self._machine.state()

    @property
    def active(self) -> ActiveBroker:
        """The present activation, or the last one.  Raises RuntimeError before the first."""
        if self._active is None:
            raise RuntimeError("the broker was not started")
        return self._active

    @property
    def memory_size(self) -> int:
        """Bytes that messages hold in memory."""
        return 0 if self._active is None else self._active.messaging.core.global_memory.size

    def live(self) -> str | None:
        """One line that says why the broker cannot go on; None when it can."""
        lost = self.state == failed.name or (self._active is not None and self._active.store.failed)
        return "the journal can no longer be written" if lost else None

    def ready(self) -> str | None:
        """One line that says why clients cannot be served; None when they can."""
        if self.state != active.name:
            reason = self._isolated or ("it asks the places of the network check" if self._asks_network else self._parts.activation.state)
            return self.live() or " ".join(filter(None, ("the broker is", self.state, reason and f"({reason})")))
        return self.live() or self.active.problem()

    def figures(self) -> MetricsSource:
        from mqbroker.server.observation.figures import BrokerFigures, PassiveFigures

        if self._active is None or self.state != active.name:
            activation, state = self._parts.activation, "isolated" if self._isolated else self.state
            return PassiveFigures(self.settings.configuration.name, activation.role, state, activation.copies)
        return BrokerFigures(self._active.server, self._active.disk_usage, self._parts.loop_lag_ms)

    # --- requests

    def start(self) -> None:
        """Open the store; then take clients and join other brokers, now or once the activation is granted.

        Raises :class:`StartError` for an activation that was granted now, too; nothing is left open then.
        """
        self._error, self._start_waits = None, True
        if self._parts.network is not None:
            self._parts.network.start(self._stop_isolated, self._return_reachable)
        try:
            self._machine.start()
        finally:
            self._start_waits = False
        if self._error is not None:
            raise self._error

    def stop(self) -> Deferred[None]:
        """Stop in order: clients are told, accepted messages are written.  With a graceful shutdown clients may end by themselves first."""
        done: Deferred[None] = Deferred()
        self._returns = False
        self._watch_no_more()
        self._waiting.append(done)
        self._machine.stop()
        return done

    # --- the network check

    def _stop_isolated(self, reason: str) -> None:
        """No place answers: stop in order, without asking another broker to go on, until one answers."""
        log.warn("AMQ201001: Network is unhealthy, stopping service {name}: {reason}", name=self.settings.configuration.name, reason=reason)
        self._isolated = reason
        self._returns = True
        if self._at_rest_or_leaving:
            return
        if self._machine.state() == active.name:
            self._parts.activation.hold_back()
        self._machine.stop()

    @property
    def _at_rest_or_leaving(self) -> bool:
        return self._machine.state() in (stopped.name, leaving.name, stopping.name)

    def _return_reachable(self) -> None:
        log.info("AMQ201000: Network is healthy, starting service {name}", name=self.settings.configuration.name)
        self._isolated = ""
        if self._returns and self._at_rest:
            self._return()

    def _watch_no_more(self) -> None:
        self._isolated = ""
        if self._parts.network is not None:
            self._parts.network.stop()

    def _close_pages(self) -> Deferred[Any]:
        """The pages of a broker that the network check has stopped say why."""
        return succeed(None) if self._isolated else self._pages.close()

    # --- the work of the states

    def open(self) -> None:
        self._active = None
        self._asks_network = False
        self._at_rest = False
        self._era = era = object()
        try:
            self._pages.open()
            self._store = self._parts.make_store(self.settings, self._parts, self._new_writer, partial(self._store_failed, era))
            self._store.open()
        except Exception as error:
            self._refuse(error)
        else:
            self._machine.opened()

    def seek_activation(self) -> None:
        candidate = Candidate(self, self._granted, self._store)
        self._parts.activation.seek(candidate)
        if not candidate.at_once or self._asks_network:
            self._machine.wait()

    def _granted(self) -> None:
        """A proof is there; the network check may object to it."""
        network, era = self._parts.network, self._era
        if network is None:
            self._machine.activate()
            return

        def asked(answers: bool) -> None:
            if era is self._era and answers:
                self._asks_network = False
                self._machine.activate()

        self._asks_network = True
        network.look().addCallback(asked)

    def give_way(self, again: bool) -> None:
        """Another broker is to be active."""
        if not again:
            self._stop_wanted()
        elif self._machine.state() == active.name:
            self._returns = True
            self._machine.stop()

    def start_again(self, node_id: str, register: Callable[[ClusterChannel], object]) -> None:
        """End at once, without answers, and seek to be active anew; a broker that waits for the last clients of its stop only ends at once.

        Its acceptors stay open as those of :meth:`take_brokers`.
        """
        era = self._era
        if self._machine.state() == leaving.name:
            # The search for the proof, which goes on after the end of an activation, does not after a stop.
            self._parts.clock.call_later(0, self._end_leaving, era)
        elif self._machine.state() == active.name:
            server, listeners = self._waiting_server(node_id, register), self.active.listeners
            listeners.serve(server)
            self._waiting_listeners = server, listeners
            self._machine.step_back()
            closed: Deferred[Any] = gatherResults(self._closing, consumeErrors=True)
            closed.addBoth(lambda _: self._parts.clock.call_later(0, self._stepped_back, era))

    def begin_again(self, ready: Deferred[None]) -> None:
        """End at once, without answers, and seek to be active anew when ``ready`` has come; a broker that stops only ends at once."""
        era = self._era
        if self._machine.state() == leaving.name:
            self._parts.clock.call_later(0, self._end_leaving, era)
        elif self._machine.state() == active.name:
            self._machine.step_back()
            closing, self._closing = self._closing, []
            closed: Deferred[Any] = gatherResults([*closing, ready], consumeErrors=True)
            closed.addBoth(lambda _: self._parts.clock.call_later(0, self._stepped_back, era))

    def _end_leaving(self, era: object) -> None:
        if era is self._era:
            self._machine.fail()

    def _stepped_back(self, era: object) -> None:
        if era is self._era:
            self._machine.ended()

    def take_brokers(self, node_id: str, register: Callable[[ClusterChannel], object]) -> None:
        """While the broker is passive, let other brokers ask what ``register`` has handlers for."""
        self._listen_no_more()
        if self._waiting_listeners is not None:
            return
        server = self._waiting_server(node_id, register)
        listeners = self._parts.make_listeners(server)
        try:
            listeners.open()
        except StartError as error:
            server.stop()
            if self._start_waits:
                self._store.fence(str(error))
            else:
                # The end of a broker that has waited loses its knowledge, as that it was in sync when the active one was lost.
                self._tell_listen_problem(str(error))
                self._listen_timer = self._parts.clock.call_later(LISTEN_SECONDS, self.take_brokers, node_id, register)
        else:
            self._listen_problem = ""
            self._waiting_listeners = server, listeners

    def _tell_listen_problem(self, problem: str) -> None:
        if problem != self._listen_problem:
            log.warn("other brokers cannot ask this one, which tries again: {problem}", problem=problem)
            self._listen_problem = problem

    def _listen_no_more(self) -> None:
        if self._listen_timer is not None:
            self._listen_timer.cancel()
            self._listen_timer = None

    def _waiting_server(self, node_id: str, register: Callable[[ClusterChannel], object]) -> WaitingServer:
        from mqbroker.server.transport.waiting import WaitingServer

        parts = self._parts
        server = WaitingServer(self.settings.configuration, self._store, parts.clock, lambda: parts.entropy(4).hex(), node_id)
        register(server.cluster_channel)
        return server

    def take_nobody(self) -> Deferred[Any]:
        """End what :meth:`take_brokers` has begun; completes when the ports are free."""
        self._listen_no_more()
        self._send_retired_away()
        if self._waiting_listeners is None:
            return succeed(None)
        server, listeners = self._waiting_listeners
        self._waiting_listeners = None
        closed = listeners.close()
        server.stop()
        return closed

    def _send_retired_away(self) -> None:
        if self._retired is not None:
            self._retired.stop()
            self._retired = None

    def activate(self) -> None:
        self._listen_no_more()
        store, waiting = self._store, self._waiting_listeners
        try:
            recovered = store.load()
        except Exception as error:
            self._refuse(error)
            return
        try:
            self._active = ActiveBroker(self.settings, self._parts, store, recovered, self._stop_wanted, waiting and waiting[1])
            self._active.serve()
            if waiting is not None:
                self._waiting_listeners = None
                self._retired = waiting[0]
                self._retired.retire()
            self._active.join()
            self._parts.activation.serve(self._active.server, store, recovered.settings)
        except Exception as error:
            if self._active is not None:
                self._active.give_up()
            store.withdraw()
            self._refuse(error)
        else:
            self._machine.activated()
            self._tell_active()
            if self.settings.configuration.gives_away and self._parts.activation.gives_away:
                self._active.retire(self._parts.activation.retire)

    def _refuse(self, error: Exception) -> None:
        """The start has failed: close what it has opened, and report ``error``."""
        self._watch_no_more()
        self.take_nobody()
        self._parts.activation.cease()
        self._end_writers()
        self._pages.close()
        if isinstance(error, StorageError | OSError):
            self._error = StartError(advice(error) if isinstance(error, OSError) else str(error))
            self._error.__cause__ = error
        else:
            self._error = error
        self._machine.refused()
        if not self._start_waits:
            self._tell_failed(str(self._error))

    def close(self) -> None:
        self._asks_network = False
        self._closing.append(self.take_nobody())
        self._parts.activation.cease()
        self._store.abort()
        self._end_writers()
        self._closing.append(self._close_pages())

    def leave(self) -> None:
        self._parts.activation.leave()
        active = self.active
        self._closing.append(active.listeners.close())
        left = active.clients_gone().addCallback(lambda _: Deferred.fromCoroutine(active.leave(bool(self._isolated))))
        era = self._era
        left.addBoth(lambda _: self._machine.left() if era is self._era else None)

    def write(self) -> None:
        self._send_retired_away()
        self.active.end()
        written: Deferred[None] = Deferred()

        def done() -> None:
            if not written.called:
                written.callback(None)

        self._store.stop(lambda: self._parts.activation.let_go(done))
        limit = self._parts.clock.call_later(STOP_SECONDS, done)

        def finished(result: object) -> None:
            limit.cancel()
            self._parts.activation.cease()
            hanging = self._end_writers()
            self._machine.written()
            if hanging:
                self._tell_failed(hanging)

        closing: Deferred[Any] = gatherResults([*self._closing, self._close_pages(), written], consumeErrors=True)
        self._closing.clear()
        closing.addBoth(finished)

    def seek_no_more(self) -> None:
        self._closing.append(self.take_nobody())
        self._parts.activation.cease()

    def tell_stopped(self) -> None:
        closing, self._closing = self._closing, []
        waiting, self._waiting = self._waiting, []

        def tell() -> None:
            self._at_rest = True
            for each in waiting:
                each.callback(None)
            if self._returns and not self._isolated:
                self._return()

        closed: Deferred[Any] = gatherResults([*closing, self._close_pages()], consumeErrors=True)
        # Later, because the caller of stop may start the broker again, and the work of a state cannot.
        closed.addBoth(lambda _: self._parts.clock.call_later(0, tell))

    def _return(self) -> None:
        self._returns = False
        try:
            self.start()
        except Exception as error:
            self._tell_failed(str(error))

    def abandon(self) -> None:
        if self._active is not None:
            if self._waiting_listeners is None:
                self._closing.append(self._active.listeners.close())
            self._active.end()
        self._send_retired_away()
        self._store.abort()
        self._parts.activation.cease()
        self._end_writers()

    def _store_failed(self, era: object, reason: str) -> None:
        self._returns = False
        self._watch_no_more()
        self._tell_failed(reason)
        # The store is in the middle of its work now.
        self._parts.clock.call_later(0, lambda: self._machine.fail() if era is self._era else None)

    # --- the writers of the store

    def _new_writer(self) -> DiskWriter:
        writer = self._parts.make_writer(self._in_turn)
        self._writers.append(writer)
        return writer

    def _end_writers(self) -> str:
        """Returns when every submitted operation has run, '', or when one of them hangs, which one."""
        writers, self._writers = self._writers, []
        ended = [writer.close() for writer in writers]
        if all(ended):
            return ""
        folders = ", ".join(written_folders(self.settings))
        reason = f"the store does not answer, and work on it is not finished: {folders}"
        log.error("{reason}", reason=reason)
        return reason

    def _in_turn(self, function: Callable[..., object], *args: Any) -> None:
        if self._active is None:
            function(*args)
        else:
            self._active.messaging.core.turn.run(function, *args)
