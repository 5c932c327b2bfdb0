"""The broker processes of the demonstrations."""

from __future__ import annotations

import secrets
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from mqbroker.cli.demo.proxy import bound
from mqbroker.cli.status import CommandError

QUEUE: Final = "demo"
START_SECONDS: Final = 60.0
"""How long a broker may take to start, on a busy machine."""
STOP_SECONDS: Final = 15.0
"""After this time a broker that was asked to stop is killed."""
ACTIVE: Final = "AMQ221007"

BROKER_XML: Final = """<?xml version="1.0" encoding="UTF-8"?>
<configuration xmlns="urn:activemq">
   <core xmlns="urn:activemq:core">
      <name>{name}</name>
      <security-enabled>false</security-enabled>
      <persistence-enabled>true</persistence-enabled>
      <cluster-user>demo</cluster-user>
      <cluster-password>{password}</cluster-password>
{core}
      <address-settings>
         <address-setting match="#">
{settings}
            <max-delivery-attempts>-1</max-delivery-attempts>
         </address-setting>
      </address-settings>
      <addresses>
         <address name="{queue}">
            <anycast>
               <queue name="{queue}"/>
            </anycast>
         </address>
      </addresses>
   </core>
</configuration>
"""
_NETWORK: Final = """
      <acceptors>
         <acceptor name="artemis">tcp://127.0.0.1:{port}?protocols=CORE</acceptor>
      </acceptors>
      <connectors>
{connectors}
      </connectors>
      <cluster-connections>
         <cluster-connection name="demo">
            <connector-ref>{name}</connector-ref>
{options}
            <retry-interval>200</retry-interval>
            <message-load-balancing>ON_DEMAND</message-load-balancing>
            <static-connectors>
{others}
            </static-connectors>
         </cluster-connection>
      </cluster-connections>
"""
_AT_ONCE: Final = "            <redistribution-delay>0</redistribution-delay>"


class Node:
    """One broker.  Its port is held until this object is closed, so that a restarted broker has the same port."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        self.folder = folder / name
        self.process: subprocess.Popen[bytes] | None = None
        self._holder = bound(0)
        self.port = int(self._holder.getsockname()[1])

    @property
    def url(self) -> str:
        """The URL for clients of this very node."""
        return f"tcp://127.0.0.1:{self.port}?useTopologyForLoadBalancing=false&reconnectAttempts=0"

    @property
    def announced(self) -> int:
        """The port that others are told."""
        return self.port

    @property
    def log(self) -> Path:
        return self.folder / "broker.log"

    @property
    def running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def configure(self, nodes: Sequence[Node], password: str, core: str = "", options: str = "") -> None:
        """``core`` and ``options``: further elements of the broker, and of its cluster connection."""
        self.folder.mkdir()
        connectors = "\n".join(f'         <connector name="{each.name}">tcp://127.0.0.1:{each.announced}</connector>' for each in nodes)
        others = "\n".join(f"               <connector-ref>{each.name}</connector-ref>" for each in nodes if each is not self)
        core += _NETWORK.format(name=self.name, port=self.port, connectors=connectors, others=others, options=options)
        text = BROKER_XML.format(name=self.name, queue=QUEUE, password=password, core=core, settings=_AT_ONCE)
        (self.folder / "broker.xml").write_text(text, encoding="utf-8")

    @property
    def command(self) -> list[str]:
        """The command line that runs the broker."""
        return [sys.executable, "-m", "mqbroker.cli.daemon", "--config", str(self.folder / "broker.xml"), "--data", str(self.folder)]

    def start(self) -> None:
        """Start the process; :meth:`await_active` says when it takes clients."""
        if self.running:
            return
        command = self.command
        with self.log.open("wb") as output:
            # In a session of its own a broker does not get the Ctrl-C that ends the demonstration.
            self.process = subprocess.Popen(
                command, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
            )

    @property
    def told(self) -> str:
        """The text that the broker has written since its last start."""
        return self.log.read_text("utf-8", "replace")

    def has_told(self, line: str) -> bool:
        """Has the broker written ``line``?  Raises CommandError when it has ended instead."""
        running, text = self.running, self.told
        if not running and line not in text:
            raise CommandError(f"{self.name} does not start: {text[-2000:].strip()}")
        return line in text

    def kill(self) -> None:
        """End it as a crash would."""
        if self.process is not None and self.running:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()

    def close(self) -> None:
        """End it in order if it can be, in any case for good."""
        if self.process is not None and self.running:
            self.process.terminate()

    def closed(self, deadline: float) -> None:
        process = self.process
        if process is not None:
            try:
                process.wait(max(deadline - time.monotonic(), 0.0))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._holder.close()


class Brokers:
    """A context with brokers, their data in a temporary folder; nothing is left behind."""

    def __init__(self) -> None:
        self._temporary = tempfile.TemporaryDirectory(prefix="mqbroker-demo-")
        self.folder = Path(self._temporary.name)
        self.password = secrets.token_hex(8)
        self.nodes: Sequence[Node] = ()

    def start(self) -> None:
        """Start all, and wait until they are what they should be.  Raises CommandError."""
        for node in self.nodes:
            node.start()
        await_active(self.nodes)

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        # A second Ctrl-C must not leave processes behind.
        kept = signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            for node in self.nodes:
                node.close()
            deadline = time.monotonic() + STOP_SECONDS
            for node in self.nodes:
                node.closed(deadline)
            self._temporary.cleanup()
        finally:
            signal.signal(signal.SIGINT, kept)


class Nodes(Brokers):
    """A cluster of ``count`` brokers, on ports that the system chose."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.nodes = [Node(f"node{number}", self.folder) for number in range(count)]
        for node in self.nodes:
            node.configure(self.nodes, self.password)


def await_active(nodes: Sequence[Node]) -> None:
    """Wait until all take clients.  Raises CommandError with the reason when one does not."""
    await_told(dict.fromkeys(nodes, ACTIVE))


def await_told(wanted: Mapping[Node, str]) -> None:
    """Wait until each has written its line.  Raises CommandError with the reason when one does not."""
    deadline = time.monotonic() + START_SECONDS
    while waiting := [node for node, line in wanted.items() if not node.has_told(line)]:
        if time.monotonic() > deadline:
            raise CommandError(f"{waiting[0].name} has not started within {START_SECONDS:g} s: {waiting[0].told[-2000:]}")
        time.sleep(0.05)
