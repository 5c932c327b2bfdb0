"""A real ZooKeeper of three servers, from the jars that pyspark carries, on ports of the loopback address that the system has chosen."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from unittest import TestCase

import pytest

from mqbroker.lock_managers import ZOOKEEPER
from tests.interop.processes import ManagedProcess, ProcessFailed, free_port

JARS = (
    *("zookeeper-", "slf4j-api-", "metrics-core-", "snappy-java-", "netty-common-", "netty-buffer-", "netty-transport-", "netty-handler-"),
    *("netty-resolver-", "commons-cli-", "commons-io-", "audience-annotations-"),
)
"""The beginnings of the names of what a server needs; without a logger it writes nothing."""
QUICK_JAVA = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx128m")
TICK_MS = 500
"""Sessions last 2 to 20 of them."""
CONNECTION_MS = 2000
"""After that a broker tries again to connect to an ensemble that is away."""
START_SECONDS = 120.0
LOOK_SECONDS = 0.1

CONFIGURATION = """\
tickTime={tick}
initLimit=20
syncLimit=10
dataDir={data}
clientPort={port}
clientPortAddress=127.0.0.1
admin.enableServer=false
4lw.commands.whitelist=srvr
forceSync=no
"""


def class_path() -> str:
    spark = find_spec("pyspark")
    if spark is None or spark.origin is None:
        raise FileNotFoundError("the jars of ZooKeeper are those of pyspark, which is not installed")
    return ":".join(str(jar) for jar in sorted((Path(spark.origin).parent / "jars").iterdir()) if jar.name.startswith(JARS))


class ZooKeeperServer:
    """One server, which is not started yet; what it has stored stays between kill and start."""

    def __init__(self, folder: Path, number: int, port: int, members: str) -> None:
        self.port = port
        self._folder = folder
        folder.mkdir(parents=True)
        (folder / "myid").write_text(str(number))
        (folder / "zoo.cfg").write_text(CONFIGURATION.format(tick=TICK_MS, data=folder, port=port) + members)
        self._process: ManagedProcess | None = None

    def start(self) -> None:
        main = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
        command = ["java", *QUICK_JAVA, "-cp", class_path(), main, str(self._folder / "zoo.cfg")]
        self._process = ManagedProcess(command, self._folder)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process = None

    @property
    def running(self) -> bool:
        return self._process is not None

    @property
    def mode(self) -> str:
        """``leader``, ``follower``, or nothing for one that does not serve."""
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=2) as connection:
            connection.sendall(b"srvr")
            answer = connection.makefile("rb").read().decode()
            return next((line.removeprefix("Mode: ") for line in answer.splitlines() if line.startswith("Mode: ")), "")
        return ""


class Ensemble:
    """Three servers in a folder."""

    def __init__(self, folder: Path) -> None:
        places = [(free_port(), free_port(), free_port()) for _ in range(3)]
        members = "".join(f"server.{number}=127.0.0.1:{peer}:{election}\n" for number, (_, peer, election) in enumerate(places, 1))
        self.servers = [ZooKeeperServer(folder / f"zookeeper{number}", number, place[0], members) for number, place in enumerate(places, 1)]

    @property
    def connect_string(self) -> str:
        return ",".join(f"127.0.0.1:{server.port}" for server in self.servers)

    def manager_xml(self, namespace: str, session_ms: int) -> str:
        """The element of broker.xml."""
        properties = {
            "connect-string": self.connect_string,
            "namespace": namespace,
            "session-ms": str(session_ms),
            "connection-ms": str(CONNECTION_MS),
        }
        listed = "".join(f'<property key="{name}" value="{value}"/>' for name, value in properties.items())
        return f"<manager><class-name>{ZOOKEEPER[0]}</class-name><properties>{listed}</properties></manager>"

    def start(self) -> None:
        """Start those that do not run, and wait until all serve."""
        for server in self.servers:
            if not server.running:
                server.start()
        self._wait_until("all servers of ZooKeeper serve", lambda: all(server.mode for server in self.servers))

    def kill_leader(self) -> None:
        """Kill it when there is one: an election may be under way on a busy machine."""
        found: list[ZooKeeperServer] = []

        def is_found() -> bool:
            found.extend(server for server in self.servers if server.mode == "leader")
            return bool(found)

        self._wait_until("there is a leader", is_found)
        found[0].kill()

    def kill(self) -> None:
        for server in self.servers:
            server.kill()

    def _wait_until(self, what: str, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + START_SECONDS
        while not condition():
            if time.monotonic() > deadline:
                raise ProcessFailed(f"it is not so that {what}: {[server.mode for server in self.servers]}")
            time.sleep(LOOK_SECONDS)


class EnsembleCase(TestCase):
    """All such tests share an ensemble, whose servers all serve when a test begins; each has a namespace of its own."""

    ensemble: Ensemble

    @pytest.fixture(autouse=True)
    def _shared(self, ensemble: Ensemble) -> None:
        self.ensemble = ensemble

    def setUp(self) -> None:
        super().setUp()
        self.ensemble.start()
        self.namespace = self.id().replace(".", "-")

    def manager_xml(self, session_ms: int) -> str:
        return self.ensemble.manager_xml(self.namespace, session_ms)
