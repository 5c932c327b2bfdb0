"""Sessions of kazoo's client, for the lock manager on ZooKeeper.  Imported only where one is configured: kazoo is an extra."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import BadVersionError, KazooException, RolledBackError, RuntimeInconsistency
from kazoo.exceptions import NodeExistsError as KazooNodeExistsError
from kazoo.exceptions import NoNodeError as KazooNoNodeError
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.protocol.connection import ConnectionHandler
from kazoo.protocol.states import KazooState
from twisted.logger import Logger

from mqbroker.ha.locks.contract import UnavailableError
from mqbroker.ha.locks.zookeeper.properties import ZooKeeperProperties
from mqbroker.ha.locks.zookeeper.session import NodeExistsError, NoNodeError, VersionError

CLOSE_SECONDS = 2.0
"""How long the end of a session is waited for; without an answer it ends by itself."""

RECONNECT = {"max_tries": -1, "delay": 0.1, "backoff": 2, "max_delay": 1.0}
"""Kazoo tries all servers, again and again, until the session is over."""

log = Logger(namespace="mqbroker.ha")


class _Connection(ConnectionHandler):  # type: ignore[misc]
    """Remembers what the ensemble has made of the session's timeout, which kazoo only logs."""

    timeout_ms = 0

    def _connect(self, host: str, hostip: str, port: int) -> Any:
        read_ms, connect_ms = super()._connect(host, hostip, port)
        self.timeout_ms = round(connect_ms * len(self.client.hosts))
        return read_ms, connect_ms


class _Client(KazooClient):  # type: ignore[misc]
    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._connection = _Connection(self, self._conn_retry.copy(), logger=self.logger)

    @property
    def timeout_ms(self) -> int:
        return self._connection.timeout_ms


def connect(properties: ZooKeeperProperties, lost: Callable[[str], object]) -> KazooSession:
    """Implements :data:`mqbroker.ha.locks.zookeeper.manager.Connect`."""
    return KazooSession(properties, lost)


class KazooSession:
    """Implements :class:`mqbroker.ha.locks.zookeeper.session.Session`.  ``lost`` is called by a thread of kazoo or of a timer."""

    def __init__(self, properties: ZooKeeperProperties, lost: Callable[[str], object], make_client: Callable[..., Any] = _Client) -> None:
        self._properties = properties
        self._lost = lost
        self._seconds = properties.connection_ms / 1000
        self._guard = threading.Lock()
        self._over = False
        self._interrupted: threading.Timer | None = None
        hosts = ",".join(f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in properties.servers)
        silent = logging.Logger("kazoo", logging.CRITICAL + 1)
        self._client = make_client(hosts=hosts, timeout=properties.session_ms / 1000, connection_retry=dict(RECONNECT), logger=silent)
        self.timeout_ms = properties.session_ms
        self._client.add_listener(self._changed)
        connected = self._client.start_async().wait(self._seconds)
        client_id = self._client.client_id
        if not connected or client_id is None or self._over:
            self.close()
            raise UnavailableError(f"no server of {hosts} answers within {properties.connection_ms} ms, or its answer was lost at once")
        self.session_id = int(client_id[0])
        self.timeout_ms = int(self._client.timeout_ms)

    @property
    def is_over(self) -> bool:
        return self._over

    # --- the connection

    def _changed(self, state: str) -> None:
        """Called by the thread that connects: a new session begins only after this has returned."""
        if state == KazooState.LOST:
            self._end("its session has expired")
        elif state == KazooState.SUSPENDED:
            self._watch_interruption()
        else:
            self._stop_watching()

    def _watch_interruption(self) -> None:
        share = self._properties.session_percent / 100
        with self._guard:
            if self._over or self._interrupted is not None:
                return
            log.warn("the connection to ZooKeeper is interrupted")
            if share:
                seconds = self.timeout_ms / 1000 * share
                self._interrupted = threading.Timer(seconds, self._end, (f"no server has answered for {seconds:g} s",))
                self._interrupted.daemon = True
                self._interrupted.start()

    def _stop_watching(self) -> None:
        with self._guard:
            if self._interrupted is not None:
                self._interrupted.cancel()
                self._interrupted = None
                log.info("connected to ZooKeeper again")

    def _end(self, reason: str) -> None:
        with self._guard:
            if self._over:
                return
            self._over = True
        self._stop_watching()
        self._lost(reason)

    def close(self) -> None:
        with self._guard:
            self._over = True
        self._stop_watching()
        # Kazoo waits for an attempt to connect, so it is not waited for without a limit.
        thread = threading.Thread(target=self._stop_client, name="mqbroker-zookeeper-close", daemon=True)
        thread.start()
        thread.join(CLOSE_SECONDS)

    def _stop_client(self) -> None:
        try:
            self._client.stop()
            self._client.close()
        except Exception:
            log.failure("the client of ZooKeeper could not be stopped")

    # --- requests

    def sync(self, path: str) -> None:
        self._answer(self._client.sync_async, path)

    def children(self, path: str) -> Sequence[str]:
        return list(self._answer(self._client.get_children_async, path))

    def owner(self, path: str) -> int | None:
        found = self._answer(self._client.exists_async, path)
        return None if found is None else int(found.ephemeralOwner)

    def read(self, path: str) -> tuple[bytes, int]:
        content, found = self._answer(self._client.get_async, path)
        return bytes(content), int(found.version)

    def create(self, path: str) -> None:
        self._answer(self._client.create_async, path)

    def create_contender(self, path: str, content: bytes) -> None:
        self._answer(self._client.create_async, path, content, ephemeral=True, sequence=True)

    def delete(self, path: str) -> None:
        try:
            self._answer(self._client.delete_async, path)
        except NoNodeError:
            pass

    def write(self, path: str, content: bytes, version: int | None, while_exists: str) -> None:
        transaction = self._client.transaction()
        transaction.check(while_exists, -1)
        if version is None:
            transaction.create(path, content)
        else:
            transaction.set_data(path, content, version)
        for result in self._answer(transaction.commit_async):
            if isinstance(result, Exception) and not isinstance(result, RolledBackError | RuntimeInconsistency):
                raise _translated(result)

    def _answer(self, request: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        if self._over:
            raise UnavailableError("the session of ZooKeeper is over")
        try:
            return request(*arguments, **options).get(timeout=self._seconds)
        except (KazooException, KazooTimeoutError, OSError) as error:
            raise _translated(error) from error


def _translated(error: Exception) -> Exception:
    for kind, own in ((KazooNoNodeError, NoNodeError), (KazooNodeExistsError, NodeExistsError), (BadVersionError, VersionError)):
        if isinstance(error, kind):
            return own(str(error))
    return UnavailableError(f"ZooKeeper gives no answer: {error!r}")
