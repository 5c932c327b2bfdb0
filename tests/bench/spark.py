"""Source and sink of Spark beside our plain client and Spark's ``rate`` source, all in the same run, with the memory of each process."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from mqclient.errors import MQError
from mqclient.jms import JMSException
from tests.bench import brokers
from tests.bench.results import LoadFailed, Run
from tests.bench.spark_rows import CORES, PREFIX, SIZES, client_name
from tests.interop.instance import Additions
from tests.interop.peers import Peer
from tests.interop.processes import ProcessFailed
from tests.spark.support import ROOT, context, environment

SECONDS_MAX = 900.0
"""For one driver program; it is killed then."""
SAMPLE_SECONDS = 0.2
CLIENT_SHARE = 10
"""The plain client moves one in so many messages."""
COMMIT_EVERY = 1_000
SETTINGS = Additions(
    expiry_scan_ms=30_000,
    address_settings=(
        # A batch of the sink has to fit into what the broker remembers.
        '<address-setting match="bench.spark.#"><id-cache-size>2000000</id-cache-size></address-setting>'
        '<address-setting match="bench.spark.deep"><max-size-bytes>10485760</max-size-bytes><page-size-bytes>1048576</page-size-bytes>'
        "<address-full-policy>PAGE</address-full-policy></address-setting>"
    ),
)


@dataclass(frozen=True)
class Sizes:
    """Messages of each measurement, and of the deep queue (0: none)."""

    messages: int = 500_000
    deep: int = 2_000_000


QUICK = Sizes(2_000, 10_000)


def tree(pid: int) -> Iterator[int]:
    """The process and all that it has started, those in between included."""
    yield pid
    try:
        children = [int(child) for task in Path(f"/proc/{pid}/task").iterdir() for child in (task / "children").read_text().split()]
    except OSError:  # it has ended
        return
    for child in children:
        yield from tree(child)


class Processes:
    """Broker, virtual machine and Python workers from now to the end: the greatest memory (MiB) of one, the CPU time (s) of all.

    The time of a worker that ends meanwhile is not in it.
    """

    def __init__(self, broker: int, driver: int) -> None:
        self.memory: dict[str, float] = {}
        self.seconds: dict[str, float] = {}
        self._broker = broker
        self._driver = driver
        self._begun = self._look()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        while not self._over.wait(SAMPLE_SECONDS):
            self._look()

    def _look(self) -> dict[int, float]:
        """CPU time of each process up to now."""
        found: dict[int, float] = {}
        for pid in (self._broker, *tree(self._driver)):
            if pid == self._driver:
                continue
            try:
                used = brokers.usage(pid)
            except (OSError, KeyError):  # the process has ended
                continue
            name = self._kind(pid)
            found[pid] = used.cpu_seconds
            self.memory[f"{name}_mib"] = max(self.memory.get(f"{name}_mib", 0.0), used.resident_mib)
        return found

    def _kind(self, pid: int) -> str:
        """By its program: what the virtual machine has forked is named after a thread until it becomes Python."""
        if pid == self._broker:
            return "broker"
        try:
            return "jvm" if Path(f"/proc/{pid}/exe").readlink().name == "java" else "worker"
        except OSError:
            return "worker"

    def end(self) -> None:
        for pid, seconds in self._look().items():
            name = f"{self._kind(pid)}_seconds"
            self.seconds[name] = self.seconds.get(name, 0.0) + seconds - self._begun.get(pid, 0.0)
        self._over.set()
        self._thread.join()


def measure(folder: Path, rounds: int, sizes: Sizes, on_run: Callable[[Run], None]) -> None:
    """So many rounds, each with a fresh broker and a driver program for each number of cores; ``on_run`` hears of each measurement."""
    for turn in range(rounds):
        for cores in CORES if turn % 2 == 0 else reversed(CORES):
            peer = brokers.new_broker("mqbroker", folder / f"spark-{turn}-{cores}", SETTINGS)
            try:
                brokers.start_peer(peer)
                for run in _driver(peer, folder / f"driver-{turn}-{cores}", cores, turn, sizes):
                    on_run(run)
                if cores == CORES[0]:
                    for size in SIZES:
                        for run in _client(peer, size, turn, max(sizes.messages // CLIENT_SHARE, COMMIT_EVERY)):
                            on_run(run)
            except (LoadFailed, ProcessFailed, OSError, MQError, JMSException) as error:
                on_run(Run("mqbroker", f"{PREFIX}{cores}", turn, error=f"{type(error).__name__}: {error}"))
            finally:
                peer.kill()


def _driver(peer: Peer, folder: Path, cores: int, turn: int, sizes: Sizes) -> Iterator[Run]:
    """What a driver program measures.  Raises LoadFailed when it ends with an error, or does not end."""
    folder.mkdir(parents=True)
    command = [sys.executable, "-m", "tests.bench.spark_program", str(cores), peer.url, str(folder), str(sizes.messages), str(sizes.deep)]
    with (folder / "stderr").open("w") as errors:
        process = subprocess.Popen(command, cwd=ROOT, env=environment(), stdout=subprocess.PIPE, stderr=errors, text=True)
        watchdog = threading.Timer(SECONDS_MAX, process.kill)
        watchdog.daemon = True
        watchdog.start()
        try:
            assert process.stdout is not None
            watched: Processes | None = None
            for text in process.stdout:
                if not text.startswith("{"):
                    continue
                line = json.loads(text)
                if "begin" in line:
                    watched = Processes(peer.pid, process.pid)
                    continue
                assert watched is not None
                watched.end()
                if "error" in line:
                    yield Run("mqbroker", line["error"], turn, error=line["text"])
                    continue
                count = line["messages"]
                costs = {name.replace("_seconds", "_us"): seconds * 1e6 / count for name, seconds in watched.seconds.items()}
                figures = {"messages": count, "per_second": count / max(line["seconds"], 0.001), **costs, **watched.memory}
                yield Run("mqbroker", line["end"], turn, figures)
            if process.wait() != 0:
                raise LoadFailed(
                    f"the driver program has ended with status {process.returncode}\n{(folder / 'stderr').read_text()[-2000:]}"
                )
        finally:
            watchdog.cancel()
            process.kill()
            process.wait()


def _client(peer: Peer, size: int, turn: int, messages: int) -> Iterator[Run]:
    """Our client in Python sends durable messages in transactions and takes them again."""
    queue, body = f"bench.spark.client.{size}", b"x" * size
    with context(peer.url, transacted=True) as session:
        producer, target = session.create_producer(), session.create_queue(queue)
        begin = time.monotonic()
        for number in range(messages):
            producer.send(target, session.create_bytes_message(body))
            if number % COMMIT_EVERY == COMMIT_EVERY - 1:
                session.commit()
        session.commit()
        yield _client_run("send", size, turn, messages, time.monotonic() - begin)
        consumer = session.create_consumer(target)
        begin = time.monotonic()
        for number in range(messages):
            if consumer.receive(10_000) is None:
                raise LoadFailed(f"only {number} of {messages} messages came")
            if number % COMMIT_EVERY == COMMIT_EVERY - 1:
                session.commit()
        session.commit()
        yield _client_run("receive", size, turn, messages, time.monotonic() - begin)


def _client_run(what: str, size: int, turn: int, messages: int, seconds: float) -> Run:
    return Run("mqbroker", client_name(what, size), turn, {"messages": messages, "per_second": messages / seconds})
