"""Rounds of failures under load: a broker, producers, the pipeline in a process of its own, and what came out of it."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from mqclient.errors import MQError
from mqclient.jms import JMSException
from tests.interop.cutting_proxy import CuttingProxy
from tests.interop.processes import ManagedProcess, ProcessFailed
from tests.spark.failures.pipeline import FAILED, PARQUET, RUNNING, SOURCE, out_queue
from tests.spark.failures.points import MODES, POINTS, Faults, How
from tests.spark.failures.verdict import Numbers, body_of, check_body, judge, numbers_in_parquet
from tests.spark.support import ROOT, context, environment, message_count, new_broker

PRODUCERS = ("p0", "p1")
PACE_SECONDS = 0.005
"""Between two messages of a producer."""
SECONDS_MAX = 240.0
"""For whatever has to happen; a machine may be busy with other work."""
DUMP_SECONDS = 5.0
"""Within which a process writes what its threads do."""
PACKAGES = ("org.apache.spark.sql", "org.apache.spark.api.python", "org.apache.spark.executor")
"""Whose threads are of interest."""
BATCHES = (0, 4)
"""So many of all queries are committed between two kills or cuts, …"""
MOMENT_SECONDS = (0.0, 1.5)
"""… and then it takes so long."""
CUTS = 4
"""In a round."""
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Outcome:
    """What a kind of failures came to: every violation as a sentence, and how much there was of what."""

    problems: list[str]
    counts: dict[str, int] = field(default_factory=dict)


def descendants(parent: int) -> dict[int, str]:
    """The processes below this one, by id, with the names of their programs."""
    found: dict[int, str] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            name, _, rest = (folder / "stat").read_text().partition("(")[2].rpartition(")")
            if int(rest.split()[1]) == parent:
                found |= {int(folder.name): name} | descendants(int(folder.name))
    return found


class Producer(threading.Thread):
    """Sends durable messages with numbers from 0 on, one after the other, each until it is confirmed."""

    def __init__(self, name: str, url: str) -> None:
        super().__init__(name=name, daemon=True)
        self.sent = 0
        """Messages that are confirmed."""
        self._under_way = False
        """Is the next one perhaps with the broker, although it has not confirmed it?"""
        self._url = url
        self._go = threading.Event()
        self._idle = threading.Event()
        self._over = threading.Event()

    def go(self) -> None:
        self._idle.clear()
        self._go.set()

    def pause(self) -> None:
        """Return when everything that was sent is confirmed."""
        self._go.clear()
        if not self._idle.wait(SECONDS_MAX):
            raise ProcessFailed(f"producer {self.name} gets no confirmation")

    def end(self) -> None:
        self._over.set()
        self._go.set()
        self.join(SECONDS_MAX)

    def run(self) -> None:
        while not self._over.is_set():
            try:
                with context(f"{self._url}?callTimeout=5000") as session:
                    producer, target = session.create_producer(), session.create_queue(SOURCE)
                    while not self._over.is_set():
                        if not self._go.is_set() and not self._under_way:
                            self._idle.set()
                            self._go.wait()
                            continue
                        message = session.create_text_message(body_of(self.name, self.sent))
                        message.set_string_property("producer", self.name)
                        message.set_long_property("number", self.sent)
                        message.set_string_property("_AMQ_DUPL_ID", f"{self.name}-{self.sent}")
                        self._under_way = True
                        producer.send(target, message)
                        self.sent += 1
                        self._under_way = False
                        time.sleep(PACE_SECONDS)
            except (JMSException, MQError):
                time.sleep(0.05)


class Rounds:
    """One broker and one pipeline; ``cut``: with a proxy in between, whose connections can be cut."""

    def __init__(self, folder: Path, rng: random.Random, proxied: bool = False, progress: Progress = lambda kind, number, of: None) -> None:
        self._folder = folder
        self._rng = rng
        self._progress = progress
        self._faults = Faults(folder / "pipeline" / "faults")
        self._broker = new_broker(folder / "broker")
        self._proxied = proxied
        self._proxy: CuttingProxy | None = None
        self._driver: ManagedProcess | None = None
        self._producers = [Producer(name, self._broker.url) for name in PRODUCERS]
        self._came: dict[str, Numbers] = {mode: Counter() for mode in MODES}
        self.failures: list[str] = []
        """What the drivers that have ended said of queries that had failed."""

    def __enter__(self) -> Rounds:
        (self._folder / "pipeline").mkdir(parents=True)
        try:
            self._broker.start()
            for producer in self._producers:
                producer.start()
                producer.go()
            self._until(lambda: all(producer.sent for producer in self._producers), "first messages")
            if self._proxied:
                self._proxy = CuttingProxy(self._broker.port)
            self._start_driver()
        except BaseException:
            self._leave()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self._leave()

    # --- kinds of failures

    def failing_tasks(self, count: int) -> Outcome:
        """A task fails at each point in turn, by an error or by the death of its process."""
        with self._judged() as outcome:
            for number in range(count):
                point = POINTS[number % len(POINTS)]
                # Each point has seen both kinds after two turns.
                self._faults.arm(point, (How.ERROR, How.DEATH)[(number + number // len(POINTS)) % 2])
                self._until(lambda point=point: not self._faults.pending(point), f"a task comes to the point {point!r}")
                self._progress("failed tasks", number + 1, count)
            outcome.counts["failed tasks"] = count
        return outcome

    def killed_drivers(self, count: int) -> Outcome:
        """The pipeline is killed at a random moment, and started again."""
        with self._judged() as outcome:
            for number in range(count):
                self._moment()
                self.kill_driver()
                self._start_driver()
                self._progress("killed drivers", number + 1, count)
            outcome.counts["killed drivers"] = count
        return outcome

    def killed_brokers(self, count: int) -> Outcome:
        """The broker is killed at a random moment, and started again on its port and data."""
        with self._judged() as outcome:
            for number in range(count):
                self._moment()
                self._broker.kill()
                self._broker.start()
                self._progress("killed brokers", number + 1, count)
            outcome.counts["killed brokers"] = count
        return outcome

    def cut_connections(self, count: int) -> Outcome:
        """All connections of the pipeline are cut, several times; every second time the broker's last answers are lost, too."""
        assert self._proxy is not None
        with self._judged() as outcome:
            for number in range(count):
                for turn in range(CUTS):
                    self._moment()
                    if turn % 2:
                        self._proxy.lose_replies()
                        time.sleep(self._rng.uniform(0.0, 0.3))
                    self._proxy.cut()
                self._progress("cut connections", number + 1, count)
            outcome.counts["cuts"] = count * CUTS
        return outcome

    # --- the verdict

    @contextlib.contextmanager
    def _judged(self) -> Iterator[Outcome]:
        """Load while the context is open; then everything has to come out, exactly once."""
        outcome = Outcome([])
        for producer in self._producers:
            producer.go()
        yield outcome
        for producer in self._producers:
            producer.pause()
        self._until_all_is_settled()
        sent = {producer.name: producer.sent for producer in self._producers}
        try:
            for mode, came in self._came.items():
                self._drain(mode, came)
                outcome.problems.extend(judge(sent, out_queue(mode), came))
            outcome.problems.extend(judge(sent, PARQUET, numbers_in_parquet(self._folder / "pipeline" / PARQUET)))
        except ValueError as error:
            outcome.problems.append(str(error))
        outcome.counts["messages so far"] = sum(sent.values())
        outcome.counts["queries started again so far"] = len(self.failures) + len(self._failures())

    def _drain(self, mode: str, came: Numbers) -> None:
        """Take everything from the queue of a sink."""
        left = message_count(self._broker.url, out_queue(mode))
        with context(self._broker.url, transacted=True) as session:
            consumer = session.create_consumer(session.create_queue(out_queue(mode)))
            # One more than are said to be there would be a double, too.
            while (message := consumer.receive(10_000 if left > 0 else 200)) is not None:
                producer, number = message.get_string_property("producer"), message.get_long_property("number")
                check_body(producer, number, message.text)
                came[producer, number] += 1
                left -= 1
            session.commit()

    # --- the pipeline

    def _moment(self) -> None:
        """Wait for a random moment in the work of the queries."""
        goal = self._batches() + self._rng.randint(*BATCHES)
        self._until(lambda: self._batches() >= goal, "batches are committed")
        time.sleep(self._rng.uniform(*MOMENT_SECONDS))
        self._check()

    def _batches(self) -> int:
        """Committed ones, of all queries."""
        folders = (self._folder / "pipeline" / "checkpoints").glob("*/commits")
        return sum(max((int(path.name) for path in folder.glob("[0-9]*")), default=-1) + 1 for folder in folders)

    def _check(self) -> None:
        if self._driver is not None:
            self._driver.raise_if_dead()
        if self._broker.running is not None:
            self._broker.running.raise_if_dead()

    def _until(self, condition: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + SECONDS_MAX
        while not condition():
            self._check()
            if time.monotonic() > deadline:
                raise ProcessFailed(f"{self._evidence()}\nnot within {SECONDS_MAX} s: {what}; {self._state()}")
            time.sleep(0.1)

    def _evidence(self) -> str:
        """Everything that the driver said, and what the threads of its virtual machine and its Python processes do: these end by that."""
        driver = self._driver
        if driver is None:
            return "no driver runs"
        before = len(driver.output())
        family = descendants(driver.pid)
        for pid in (pid for pid, name in family.items() if name == "java"):
            os.kill(pid, signal.SIGQUIT)
        with contextlib.suppress(ProcessFailed):
            driver.wait_for_line("JNI global refs", DUMP_SECONDS)
        threads = "\n".join(driver.output()[before:]).split("\n\n")
        said = [*driver.output()[:before], *(each for each in threads if any(package in each for package in PACKAGES))]
        before = len(driver.output())
        for pid in (pid for pid, name in family.items() if name.startswith("python")):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGABRT)
        time.sleep(DUMP_SECONDS)
        return "\n".join([*said, *driver.output()[before:]])

    def _state(self) -> str:
        """How far each query is, and how much the queues hold."""
        parts = [f"{queue} holds {message_count(self._broker.url, queue)}" for queue in (SOURCE, *map(out_queue, MODES))]
        for folder in sorted((self._folder / "pipeline" / "checkpoints").glob("*")):
            last = {kind: max((int(path.name) for path in (folder / kind).glob("[0-9]*")), default=-1) for kind in ("offsets", "commits")}
            parts.append(f"{folder.name}: {last}")
        return ", ".join(parts)

    def _until_all_is_settled(self) -> None:
        """However much has gathered: each part of it may take its time."""

        def count() -> int:
            return message_count(self._broker.url, SOURCE)

        left = count()
        while left:
            self._until(lambda left=left: count() < left, "everything is read, written and settled")
            left = count()

    def _start_driver(self) -> None:
        url = self._broker.url if self._proxy is None else self._proxy.url
        command = [sys.executable, "-m", "tests.spark.failures.pipeline", url, str(self._folder / "pipeline")]
        self._driver = ManagedProcess(command, ROOT, environment() | {"PYTHONFAULTHANDLER": "1"})
        self._driver.wait_for_line(RUNNING, SECONDS_MAX)

    def _failures(self) -> list[str]:
        """Of the running driver."""
        return [line for line in self._driver.output() if FAILED in line] if self._driver is not None else []

    def kill_driver(self) -> None:
        """Kill -9, the virtual machine as well."""
        self.failures += self._failures()
        driver, self._driver = self._driver, None
        if driver is None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(driver.pid, signal.SIGKILL)
        driver.kill()

    def _leave(self) -> None:
        for producer in self._producers:
            if producer.is_alive():
                producer.end()
        self.kill_driver()
        if self._proxy is not None:
            self._proxy.close()
        self._broker.stop()
