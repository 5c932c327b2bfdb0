"""Pairs of mqbrokers and of real Artemis brokers with the same broker.xml: throughput, and how long clients wait for the next message."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.bench.amounts import move
from tests.bench.brokers import NAMES, as_installed, start_peer, usage
from tests.bench.following import longest_gap
from tests.bench.ha_rows import ALONE, BLOCKING, COPY, FLOW, KILL, KILL_ZOOKEEPER, MILLION, SILENT, STOP_ZOOKEEPER
from tests.bench.load_program import LoadProgram, load_of
from tests.bench.results import Run, figures_of
from tests.bench.runner import FAILURES
from tests.interop.artemis import ArtemisBroker
from tests.interop.ha.pairs import BACKUP, PRIMARY, READY, REPLICATION, SHARED_STORE, Pair
from tests.interop.ha.zookeeper import Ensemble
from tests.interop.instance import NOTHING, Additions
from tests.interop.mqbroker_process import MqbrokerProcess
from tests.interop.peers import Peer
from tests.interop.processes import free_port

Make = Callable[[str, Path, Additions, int], Peer]

SIZE = 1024
COPIED_SIZE = 10_240
"""Bytes of a message of the store that is copied."""
TAKE_OVER_ROUNDS = 2
SESSION_MS = 4000
"""Of the brokers at ZooKeeper."""
WARM_FOLLOWING = 2
SENDERS = 4
"""One may wait for an answer that was lost with the broker."""
STEADY_SECONDS = 1.0
"""Between the beginning of a measurement and what happens to the brokers."""
LIMIT_SECONDS = 120
QUICKLY = "&reconnectAttempts=-1&retryInterval=100"
AS_IN_SAMPLES = "&reconnectAttempts=-1"


@dataclass(frozen=True)
class Sizes:
    """Seconds of the flows, before them, and for each fresh broker of a flow; messages in the store; bytes copied, and seconds without."""

    seconds: int = 4
    warm: int = 2
    warm_broker: int = 8
    messages: int = 1_000_000
    copied: int = 1 << 30
    calm: int = 10


QUICK = Sizes(1, 1, 1, 2_000, 10 << 20, 1)


def created(folder: Path) -> Make:
    """Makes brokers with the broker.xml that `artemis create` makes on this machine, and further elements of `core`."""
    pattern = ArtemisBroker(folder / "created", as_created=True)
    text = (pattern.folder / "etc" / "broker.xml").read_text()

    def make(name: str, own: Path, additions: Additions, port: int) -> Peer:
        content = text.replace(f":{pattern.port}?", f":{port}?").replace("</core>", f"{additions.core}\n   </core>", 1)
        if name == "artemis":
            return ArtemisBroker(own, port=port, broker_xml=content)
        broker = MqbrokerProcess(own, additions, port, as_installed(folder))
        (own / "etc" / "broker.xml").write_text(content)
        return broker

    return make


def flow(program: LoadProgram, peers: Sequence[Peer], seconds: int, warm: int) -> dict[str, float]:
    """One producer and one consumer at the first of these; CPU of each, and memory of all."""
    marks: dict[str, list[Any]] = {}

    def mark(event: str, line: Mapping[str, Any]) -> None:
        marks[event] = [usage(peer.pid) for peer in peers]

    options = {"size": SIZE, "warm": warm, "seconds": seconds, "consumers": 1, "at0": peers[0].url}
    found = load_of(program.run(peers[0].url, "forward", options, warm + seconds + 5, mark))
    used = [after.cpu_seconds - before.cpu_seconds for before, after in zip(marks["measuring"], marks["measured"], strict=True)]
    figures = figures_of(found, sum(used), sum(each.resident_mib for each in marks["measured"]))
    for name, seconds_used in zip(("active_us", "passive_us"), used, strict=False):
        figures[name] = seconds_used * 1e6 / found.messages
    return figures


def blocking(program: LoadProgram, peers: Sequence[Peer], seconds: int, warm: int) -> dict[str, float]:
    options = {"threads": 1, "size": SIZE, "warm": warm, "seconds": seconds}
    load = load_of(program.run(peers[0].url, "blocking", options, warm + seconds, lambda event, line: None))
    return {"per_second": load.per_second, "p50_ms": load.p50_ms, "p99_ms": load.p99_ms}


def follow(program: LoadProgram, url: str, act: Callable[[], None], login: Mapping[str, str] = {}) -> dict[str, Any]:
    """The longest times, in ms, between two messages and of a send, from before ``act`` until a message has come that was sent after it.

    ``login`` has the user and the password, if needed.
    """

    def on_event(event: str, line: Mapping[str, Any]) -> None:
        time.sleep(STEADY_SECONDS)
        act()

    options: dict[str, int | str] = {"size": SIZE, "senders": SENDERS, "warm": WARM_FOLLOWING, "limit": LIMIT_SECONDS, **login}
    return program.run(url, "follow", options, LIMIT_SECONDS, on_event)


def take_over(program: LoadProgram, pair: Pair) -> dict[str, float]:
    """From the death of the active broker until a client that follows gets the next message."""

    return _taken_over(program, pair, pair[PRIMARY].kill)


def hand_over(program: LoadProgram, pair: Pair) -> dict[str, float]:
    """The same from the request to the active broker to stop."""
    return _taken_over(program, pair, pair[PRIMARY].stop)


def _taken_over(program: LoadProgram, pair: Pair, end: Callable[[], None]) -> dict[str, float]:
    def act() -> None:
        end()
        pair.wait_until_active(BACKUP, LIMIT_SECONDS)

    return {"gap_s": follow(program, pair.url + QUICKLY, act)["gap_ms"] / 1000}


def silent_death(pair: Pair) -> dict[str, float]:
    """As before, with mqclient.  The system still accepts connections for a process that stands still; on each a Java client waits for as
    long as its call timeout."""

    seconds = []

    def act() -> None:
        begin = time.monotonic()
        pair.process(PRIMARY).hold_up()
        pair.wait_until_active(BACKUP, LIMIT_SECONDS)
        seconds.append(time.monotonic() - begin)

    gap = longest_gap(pair.url + AS_IN_SAMPLES, act, WARM_FOLLOWING, LIMIT_SECONDS)
    return {"gap_s": gap, "active_s": seconds[0]}


def copy(program: LoadProgram, pair: Pair, sizes: Sizes) -> dict[str, float]:
    """A store is filled, and a replica comes: until it may take over, under the load of one sender that waits for each answer."""
    primary, backup = pair[PRIMARY], pair[BACKUP]
    primary.start()
    move(program, primary, "put", sizes.copied // COPIED_SIZE, size=COPIED_SIZE)
    url = pair.url + QUICKLY
    before = follow(program, url, lambda: time.sleep(sizes.calm))["send_ms"]
    seconds = []

    def act() -> None:
        begin = time.monotonic()
        backup.launch()
        pair.process(BACKUP).wait_for_line(READY[REPLICATION], LIMIT_SECONDS)
        seconds.append(time.monotonic() - begin)

    meanwhile = follow(program, url, act)["send_ms"]
    return {"copy_s": seconds[0], "before_ms": before, "meanwhile_ms": meanwhile, "more_ms": max(0.0, meanwhile - before)}


class Measurement:
    """All rows; a failed one is noted and passed over."""

    def __init__(self, folder: Path, rounds: int, sizes: Sizes, on_run: Callable[[Run], None]) -> None:
        self._folder = folder
        self._rounds = rounds
        self._sizes = sizes
        self._on_run = on_run
        self._program = LoadProgram()
        self._make = created(folder)
        self._pairs = 0

    def run(self) -> None:
        program = self._program
        try:
            for kind in (REPLICATION, SHARED_STORE):
                self._flows(kind)
            for name in NAMES:
                for kind in (REPLICATION, SHARED_STORE):
                    for turn in range(1, min(self._rounds, TAKE_OVER_ROUNDS)):
                        self._with_pair(KILL[kind], kind, name, lambda pair: take_over(program, pair), turn)
                self._with_pair(SILENT, REPLICATION, name, silent_death)
                self._with_pair(MILLION, REPLICATION, name, self._million)
                self._note(COPY, name, 0, lambda n=name: self._copy(n))
            self._zookeeper()
        finally:
            program.stop()

    def run_zookeeper(self) -> None:
        """The rows of ZooKeeper alone."""
        try:
            self._zookeeper()
        finally:
            self._program.stop()

    def _zookeeper(self) -> None:
        ensemble = Ensemble(self._folder / "ensemble")
        manager = ensemble.manager_xml("bench", SESSION_MS)
        options = {"primary": manager, "backup": manager}
        try:
            ensemble.start()
            for turn in range(self._rounds):
                for name in NAMES:
                    for row, measure in ((KILL_ZOOKEEPER, take_over), (STOP_ZOOKEEPER, hand_over)):
                        self._with_pair(row, REPLICATION, name, lambda pair, m=measure: m(self._program, pair), turn, options)
        except FAILURES as error:
            self._on_run(Run("mqbroker", KILL_ZOOKEEPER, 0, error=f"{type(error).__name__}: {error}"))
        finally:
            ensemble.kill()

    def _pair(self, kind: str, name: str, options: Mapping[str, str] = {}) -> Pair:
        self._pairs += 1
        return Pair(kind, name, self._folder / f"pair-{self._pairs}", options, make=self._make)

    def _flows(self, kind: str) -> None:
        """All are up at the same time, each has had some load, and they are measured in turn; in the end the active ones are killed."""
        sizes, program = self._sizes, self._program
        with ExitStack() as stack:
            pairs: dict[str, Pair] = {}
            for name in NAMES:
                pair = stack.enter_context(self._pair(kind, name))
                try:
                    pair.start()
                    flow(program, pair.brokers, 1, sizes.warm_broker)
                    pairs[name] = pair
                except FAILURES as error:
                    self._on_run(Run(name, FLOW[kind], 0, error=f"{type(error).__name__}: {error}"))
            single = self._make("mqbroker", self._folder / f"alone-{kind}", NOTHING, free_port())
            stack.callback(single.kill)
            start_peer(single)
            flow(program, [single], 1, sizes.warm_broker)
            for turn in range(self._rounds):
                self._note(ALONE[kind], "mqbroker", turn, lambda: flow(program, [single], sizes.seconds, sizes.warm))
                for name, pair in sorted(pairs.items(), reverse=turn % 2 == 0):
                    self._note(FLOW[kind], name, turn, lambda p=pair: flow(program, p.brokers, sizes.seconds, sizes.warm))
                    if kind == REPLICATION:
                        self._note(BLOCKING, name, turn, lambda p=pair: blocking(program, p.brokers, sizes.seconds, sizes.warm))
            for name, pair in pairs.items():
                self._note(KILL[kind], name, 0, lambda p=pair: take_over(program, p))
                for broker in pair.brokers:
                    broker.kill()

    def _with_pair(
        self,
        row: str,
        kind: str,
        name: str,
        measure: Callable[[Pair], Mapping[str, float]],
        turn: int = 0,
        options: Mapping[str, str] = {},
    ) -> None:
        def started() -> Mapping[str, float]:
            with self._pair(kind, name, options) as pair:
                pair.start()
                return measure(pair)

        self._note(row, name, turn, started)

    def _million(self, pair: Pair) -> Mapping[str, float]:
        put = move(self._program, pair[PRIMARY], "put", self._sizes.messages)
        return {**take_over(self._program, pair), "put_per_second": put}

    def _copy(self, name: str) -> Mapping[str, float]:
        with self._pair(REPLICATION, name) as pair:
            return copy(self._program, pair, self._sizes)

    def _note(self, row: str, name: str, turn: int, measure: Callable[[], Mapping[str, float]]) -> None:
        try:
            run = Run(name, row, turn, measure())
        except FAILURES as error:
            run = Run(name, row, turn, error=f"{type(error).__name__}: {error}")
        self._on_run(run)


def measure(folder: Path, rounds: int, sizes: Sizes, on_run: Callable[[Run], None]) -> None:
    """So many rounds of the flows; `on_run` hears of each measurement."""
    Measurement(folder, rounds, sizes, on_run).run()


def measure_zookeeper(folder: Path, rounds: int, on_run: Callable[[Run], None]) -> None:
    """As :func:`measure`, of the rows with ZooKeeper alone."""
    Measurement(folder, rounds, Sizes(), on_run).run_zookeeper()
