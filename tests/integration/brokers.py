"""A broker for tests over real sockets: mqbroker, or the broker that it is measured against.

The environment variable ``MQBROKER_TEST_PEER`` chooses: unset starts ``twistd mqbroker`` in a temporary folder, ``artemis`` starts a real
Artemis 2.44.0 (downloaded with Maven when needed), and a URL uses a broker that runs already.  One broker serves the whole test process, so
tests use names of their own for addresses.
"""

from __future__ import annotations

import atexit
import fcntl
import functools
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

START_TIMEOUT = 60.0  # s: a Java broker on a busy machine
END_TIMEOUT = 60.0  # s: an orderly end writes to a disk that may be slow
KILL_TIMEOUT = 60.0  # s: a process that waits for a slow disk ends when that has answered
CONFIGURATION = """<configuration xmlns="urn:activemq"><core xmlns="urn:activemq:core">
<name>test</name>
<security-enabled>false</security-enabled>
<persistence-enabled>true</persistence-enabled>
<journal-type>NIO</journal-type>
<paging-directory>{folder}/paging</paging-directory>
<bindings-directory>{folder}/bindings</bindings-directory>
<journal-directory>{folder}/journal</journal-directory>
<large-messages-directory>{folder}/large-messages</large-messages-directory>
<message-expiry-scan-period>100</message-expiry-scan-period>
<transaction-timeout-scan-period>100</transaction-timeout-scan-period>
<acceptors><acceptor name="artemis">tcp://127.0.0.1:{port}?protocols=CORE</acceptor></acceptors>
<addresses>
<address name="DLQ"><anycast><queue name="DLQ"/></anycast></address>
<address name="ExpiryQueue"><anycast><queue name="ExpiryQueue"/></anycast></address>
<address name="plain.queue"><anycast><queue name="plain.queue"/></anycast></address>
<address name="plain.topic"><multicast/></address>
</addresses>
<address-settings>
<address-setting match="#">
<dead-letter-address>DLQ</dead-letter-address>
<expiry-address>ExpiryQueue</expiry-address>
<redelivery-delay>0</redelivery-delay>
<max-delivery-attempts>3</max-delivery-attempts>
</address-setting>
<address-setting match="fixed.#">
<auto-create-queues>false</auto-create-queues>
<auto-create-addresses>false</auto-create-addresses>
</address-setting>
</address-settings>
</core></configuration>
"""
ACTIVE = "AMQ221007"
"""In the log line of a broker that serves clients."""
ACCEPTING = re.compile(r"AMQ221020\D[^\n]*?127\.0\.0\.1:(\d+)")
"""The log line of an acceptor that listens."""


class Broker:
    """A broker process of ours that has written ``line``; ``url`` is where it listens, empty while it is passive."""

    def __init__(self, command: list[str], folder: Path, line: str = ACTIVE) -> None:
        self._log = folder / "output.log"
        with self._log.open("wb") as output:
            self._process = subprocess.Popen(command, cwd=folder, stdout=output, stderr=subprocess.STDOUT, env=environment())
        atexit.register(self.stop)
        found = ACCEPTING.search(self.wait_for(line))
        self.url = "" if found is None else f"tcp://127.0.0.1:{found[1]}"

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def written(self) -> str:
        """The log so far."""
        return self._log.read_text("utf-8", "replace")

    def wait_for(self, line: str, times: int = 1, seconds: float = START_TIMEOUT) -> str:
        """Wait until ``line`` was written to the log so many times; returns the log."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            ended = self.has_ended()  # before the log is read: the last lines come just before the end
            text = self.written
            if text.count(line) >= times:
                return text
            if ended:
                raise AssertionError(f"the broker has ended without {line!r}: {text[-1000:]}")
            time.sleep(0.05)
        self.stop()
        raise AssertionError(f"no {line!r} within {seconds:g} s: {self.written[-1000:]}")

    def kill(self) -> None:
        """End the process without warning."""
        self._process.kill()
        self._process.wait(KILL_TIMEOUT)

    def hold_up(self) -> None:
        """Let the process do nothing until :meth:`go_on`."""
        self._process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def send_signal(self, number: int) -> None:
        self._process.send_signal(number)

    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def ended(self) -> int:
        """Wait until the process has ended by itself; returns its status."""
        return self._process.wait(END_TIMEOUT)

    def stop(self) -> None:
        """End the process; safe to call twice."""
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(20)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait(KILL_TIMEOUT)


def environment() -> dict[str, str]:
    """The environment for a Python program in another folder that finds the modules which this process finds."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry), "PYTHONUTF8": "1"}


@functools.cache
def broker_url() -> str:
    """The URL of the broker under test; started with the first call, stopped when the process ends."""
    peer = os.environ.get("MQBROKER_TEST_PEER", "")
    if "://" in peer:
        return peer
    folder = Path(tempfile.mkdtemp(prefix="mqbroker-test-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return (_artemis(folder) if peer == "artemis" else start_mqbroker(folder)).url


def against_artemis() -> bool:
    """Whether the broker under test is a real Artemis."""
    return bool(os.environ.get("MQBROKER_TEST_PEER"))


def start_mqbroker(folder: Path) -> Broker:
    """A broker of ours, at a port that the system chooses, with its data in ``folder``."""
    configuration = folder / "broker.xml"
    configuration.write_text(CONFIGURATION.format(folder=folder / "data", port=0))
    twistd = [sys.executable, "-c", "from twisted.scripts.twistd import run; run()", "-n", "--pidfile="]
    return Broker([*twistd, "mqbroker", "--config", str(configuration)], folder)


def _artemis(folder: Path) -> Broker:
    instance = folder / "instance"
    # Nobody else gets the port until the broker listens on it, some seconds later.
    holder = socket.socket()
    atexit.register(holder.close)
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    holder.bind(("127.0.0.1", 0))
    port = holder.getsockname()[1]
    create = [str(_artemis_home() / "bin" / "artemis"), "create", str(instance), "--silent", "--user=admin", "--password=secret"]
    create += ["--allow-anonymous", "--no-autotune", "--no-web", "--nio", "--host=127.0.0.1", "--java-options=-Xms128m -Xmx400m"]
    subprocess.run(create, check=True, capture_output=True, timeout=120)
    (instance / "etc" / "broker.xml").write_text(CONFIGURATION.format(folder=folder / "data", port=port))
    return Broker([str(instance / "bin" / "artemis"), "run"], folder)


def _artemis_home() -> Path:
    """The unpacked distribution; downloads it once per machine."""
    home = Path(tempfile.gettempdir()) / "artemis"
    with Path(f"{home}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (home / "bin" / "artemis").exists():
            artifact = "org.apache.activemq:apache-artemis:2.44.0:tar.gz:bin"
            subprocess.run(["mvn", "-q", "dependency:get", f"-Dartifact={artifact}"], check=True, timeout=600)
            archive = Path.home() / ".m2/repository/org/apache/activemq/apache-artemis/2.44.0/apache-artemis-2.44.0-bin.tar.gz"
            home.mkdir(exist_ok=True)
            subprocess.run(["tar", "xzf", str(archive), "-C", str(home), "--strip-components=1"], check=True, timeout=300)
    return home
