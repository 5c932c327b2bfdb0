"""The first contact with a cluster: the connection by which a broker announces itself and learns of the members.

The connection goes to the first known place that answers, and is made again for as long as the cluster connection runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mqbroker.cluster.links.opening import LossListener
from mqbroker.cluster.links.pause import Pause
from mqclient.core.factories.factory import SessionFactory
from mqclient.core.factories.locator import Locator
from mqclient.core.runtime import Runtime
from mqclient.errors import MQError
from mqclient.protocol.retry import RetryPlan
from mqclient.wire.primitives import TransportConfiguration


class Contact:
    """The task that makes and keeps this connection.

    ``connectors()`` gives the places to try now, and ``open_locator`` makes the locator for them, which must not reconnect by itself.
    ``connected(factory)`` is called when there is a connection.  ``pauses`` gives the times between attempts.
    """

    def __init__(
        self,
        runtime: Runtime,
        connectors: Callable[[], Sequence[TransportConfiguration]],
        open_locator: Callable[[Sequence[TransportConfiguration]], Locator],
        pauses: RetryPlan,
        connected: Callable[[SessionFactory], object],
    ) -> None:
        self.connector: TransportConfiguration | None = None
        """The connector of the connection; None while there is none."""
        self._runtime = runtime
        self._connectors = connectors
        self._open_locator = open_locator
        self._pauses = pauses
        self._connected = connected
        self._task: Any = None
        self._stopped = True
        self._pause = Pause(runtime)
        self._lost: Any = None

    def start(self) -> None:
        self._stopped = False
        self._task = self._runtime.spawn(self._run())

    def stop(self) -> None:
        """End the connection, or the attempts to get one."""
        if self._stopped:
            return
        self._stopped = True
        task, self._task = self._task, None
        tries = not self._pause.waits and self._lost is None
        self._pause.end()
        if self._lost is not None:
            self._runtime.resolve(self._lost, None)
        if tries:
            task.cancel()

    def connectors_changed(self) -> None:
        """Connectors may be new: try again without waiting for the end of the pause."""
        self._pause.end()

    async def _run(self) -> None:
        while not self._stopped:
            try:
                connectors = self._connectors()
                if connectors and await self._try(connectors):
                    self._pauses.restart()
            except Exception as error:  # a defect must not leave this broker outside its cluster for ever
                if not self._stopped:
                    self._runtime.log_failure("a connection to the cluster failed", error)
            if not self._stopped:
                await self._pause.wait(self._pauses.failed())

    async def _try(self, connectors: Sequence[TransportConfiguration]) -> bool:
        """Connect and stay connected as long as possible.  Returns whether there was a connection."""
        locator = self._open_locator(connectors)
        try:
            factory = await locator.create_session_factory()
        except MQError:
            return False
        lost = self._lost = self._runtime.create_future()
        factory.add_failure_listener(LossListener(lambda _: self._runtime.resolve(lost, None)))
        try:
            if not factory.closed and not self._stopped:
                self.connector = factory.connector
                self._connected(factory)
                await self._lost
        finally:
            self.connector = None
            self._lost = None
            await locator.close()
        return True
