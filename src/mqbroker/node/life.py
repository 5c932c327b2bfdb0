"""The life of a broker: it starts, serves and stops, and may do so again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.internet.defer import Deferred, gatherResults, succeed

from mqbroker.node.assembly import ActiveBroker
from mqbroker.node.parts import EndingWriter, Parts, StartError
from mqbroker.node.stores import make_store
from mqbroker.process.disk_errors import advice
from mqbroker.settings import BrokerSettings
from mqbroker.storage.disk.diskwriter import DiskWriter
from mqbroker.storage.errors import StorageError

STOP_SECONDS = 10.0
"""How long an orderly stop waits for the disk before it gives up."""


class BrokerLife:
    """One broker of ``parts``, from start to stop.

    ``store_failed`` is told why the disk can no longer be written, ``stop_wanted`` is called when management asks for an orderly stop.
    """

    def __init__(
        self,
        settings: BrokerSettings,
        parts: Parts,
        store_failed: Callable[[str], object],
        stop_wanted: Callable[[], object],
    ) -> None:
        self.settings = settings
        self.serving = False
        """Started, and not asked to stop."""
        self._parts = parts
        self._store_failed = store_failed
        self._stop_wanted = stop_wanted
        self._active: ActiveBroker | None = None
        self._writer: EndingWriter | None = None

    @property
    def active(self) -> ActiveBroker:
        """The present activation, or the last one.  Raises RuntimeError before the first."""
        if self._active is None:
            raise RuntimeError("the broker was not started")
        return self._active

    def start(self) -> None:
        """Open the store, take clients and join other brokers.  Raises :class:`StartError`; nothing is left open then."""
        self._active = None
        try:
            store = make_store(self.settings, self._parts, self._new_writer, self._store_failed)
            store.open()
            recovered = store.load()
        except (StorageError, OSError) as error:
            self._end_writer()
            raise StartError(advice(error) if isinstance(error, OSError) else str(error)) from error
        try:
            self._active = ActiveBroker(self.settings, self._parts, store, recovered, self._stop_wanted)
            self._active.start()
        except BaseException:
            self._give_up(store.withdraw)
            raise
        self.serving = True

    def give_up(self) -> None:
        """What follows a start has failed: leave nothing running, as if the start itself had."""
        self.serving = False
        self._give_up(self.active.store.withdraw)

    def _give_up(self, withdraw: Callable[[], None]) -> None:
        if self._active is not None:
            self._active.give_up()
        withdraw()
        self._end_writer()

    def stop(self) -> Deferred[None]:
        """Orderly: clients are told, what was accepted is written.  With a graceful shutdown they are waited for first."""
        if not self.serving:
            return succeed(None)
        self.serving = False
        active = self.active
        closing = active.listeners.close()
        return (
            active.clients_gone()
            .addCallback(lambda _: Deferred.fromCoroutine(active.leave()))
            .addBoth(lambda _: self._stop_now(active, closing))
        )

    def _stop_now(self, active: ActiveBroker, closing: Deferred[Any]) -> Deferred[None]:
        active.end()
        written: Deferred[None] = Deferred()

        def done() -> None:
            if not written.called:
                written.callback(None)

        active.store.stop(done)
        give_up = self._parts.clock.call_later(STOP_SECONDS, done)
        both: Deferred[Any] = gatherResults([closing, written], consumeErrors=True)

        def finished(result: object) -> None:
            give_up.cancel()
            self._end_writer()

        return both.addBoth(finished)

    def _new_writer(self) -> DiskWriter:
        self._writer = self._parts.make_writer(self._in_turn)
        return self._writer

    def _end_writer(self) -> None:
        """Everything that was submitted has run when this returns."""
        if self._writer is not None:
            writer, self._writer = self._writer, None
            writer.close()

    def _in_turn(self, function: Callable[..., object], *args: Any) -> None:
        if self._active is None:
            function(*args)
        else:
            self._active.messaging.core.turn.run(function, *args)
