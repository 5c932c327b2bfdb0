"""Listening for brokers: joins the endpoint, keeps the table of announced brokers, wakes callers that wait for the first.

Source: the Artemis manual, chapter "Clusters", section "Discovery Groups"; ``protocol-spec/``, chapter "Discovery".
"""

from __future__ import annotations

import contextlib

from mqclient.core.runtime import BroadcastLink, Runtime, Timer, Waiters
from mqclient.protocol.discovery import Discovered, DiscoveryGroupConfiguration


class DiscoveryListener:
    """Listens for announcements.  ``own_node_id`` and ``own_unique_id`` are the ids of a listening broker; a client has none."""

    def __init__(
        self,
        runtime: Runtime,
        configuration: DiscoveryGroupConfiguration,
        own_node_id: str | None = None,
        own_unique_id: str | None = None,
    ) -> None:
        self.discovered = Discovered(configuration.refresh_timeout, runtime.log_warning, own_node_id, own_unique_id)
        self._runtime = runtime
        self._endpoint = configuration.endpoint
        self._link: BroadcastLink | None = None
        self._timer: Timer | None = None
        self._waiting = Waiters(runtime)

    @property
    def started(self) -> bool:
        return self._link is not None

    def start(self) -> None:
        """Listen from now on.  Raises ``NotConnectedError`` when the system refuses, ``ValueError`` for an endpoint that cannot be used."""
        if self._link is None:
            self._link = self._runtime.open_broadcast(self._endpoint, self._received)

    def stop(self) -> None:
        """Listen no more and forget all announcements; waiting callers go on without a broker."""
        link, self._link = self._link, None
        if link is not None:
            link.close()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.discovered.clear()
        self._waiting.wake()

    async def wait(self, seconds: float) -> bool:
        """Wait until a broker is known, at most ``seconds``; returns whether one is."""
        if not self.discovered.brokers and self._link is not None:
            with contextlib.suppress(TimeoutError):
                await self._waiting.wait(seconds)
        return bool(self.discovered.brokers)

    # --- inside ---

    def _received(self, data: bytes, source: str) -> None:
        if self._link is None:
            return
        found = self.discovered.received(data, source, self._runtime.now())
        self._set_timer()
        if found:
            self._waiting.wake()

    def _set_timer(self) -> None:
        # One timer that is set anew only when it is due: datagrams come often, expiries hardly ever.
        due = self.discovered.next_expiry() if self._timer is None and self._link is not None else None
        if due is not None:
            self._timer = self._runtime.call_later(max(due - self._runtime.now(), 0.0), self._expire)

    def _expire(self) -> None:
        self._timer = None
        self.discovered.expire(self._runtime.now())
        self._set_timer()
