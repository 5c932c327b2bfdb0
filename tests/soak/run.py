"""The parts of a soak run: rounds of kill, of failures of groups of brokers and around Spark; then the mixed load, with kills first."""

from __future__ import annotations

import random
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from tests.integration.ha.failures.kinds import rounds_of
from tests.integration.ha.failures.setups import Setup, shares
from tests.integration.kill.deliveries import judge_paged
from tests.integration.kill.left import messages_left
from tests.integration.kill.rounds import PAGED_MODULE, PAGED_ROLES, ROLES, Clients, Outcome, Role, let_all_end, run_rounds
from tests.interop.cutting_proxy import CuttingProxy
from tests.interop.instance import Additions
from tests.interop.mqbroker_process import MqbrokerProcess
from tests.interop.processes import ProcessFailed
from tests.soak.report import Part
from tests.soak.verdict import judge_activity, judge_mixed
from tests.soak.watch import Trend, Watch, folder_mib, process_sample
from tests.spark.failures.rounds import Outcome as SparkOutcome
from tests.spark.failures.rounds import Rounds

KILLED_SHARE = 0.3
"""Share of the mixed run in which the broker is killed; in the rest it lives on, so that growth can be seen."""
WARM_UP_SHARE = 0.3
WARM_UP_SECONDS_MAX = 300.0
"""Of the rest: not judged, since caches and pools fill."""
KILL_SECONDS = (2.0, 8.0)
CUT_SECONDS = (2.0, 8.0)
LOSS_SECONDS = (0.0, 0.3)
SAMPLE_SECONDS = 1.0
SETTINGS = Additions(
    core="""      <id-cache-size>500</id-cache-size>
      <journal-file-size>1048576</journal-file-size>
      <journal-compact-min-files>4</journal-compact-min-files>""",
    address_settings="""         <address-setting match="soak.#">
            <max-delivery-attempts>-1</max-delivery-attempts>
            <max-size-messages>500</max-size-messages>
            <address-full-policy>BLOCK</address-full-policy>
         </address-setting>""",
)
"""Caches fill and journal files come and go within seconds, so that what grows is growth; and producers wait for consumers."""
MIXED_ROLES = (
    Role("topic", 2, 20, only_sends=True),
    Role("subscriber", 2),
    Role("kinds", 2, 20),
    Role("filtering", 3),
    Role("asking", 2, 50),
    Role("replying", 2),
    Role("visitor", 2, 100),
    Role("manager", 1, 500),
)
BEHIND_PROXY = frozenset({"producer", "consumer", "subscriber", "kinds", "asking", "visitor", "lagger"})


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def guarded(name: str, work: Callable[[], Outcome | SparkOutcome]) -> Part:
    """A part whose failure is a problem of the report, not the end of the run."""
    begin = time.monotonic()
    try:
        outcome = work()
    except Exception as error:
        say(f"{name}: {traceback.format_exc()}")
        return Part(name, time.monotonic() - begin, problems=[f"{type(error).__name__}: {error}"])
    return Part(name, time.monotonic() - begin, outcome.counts, outcome.problems)


def kill_rounds(folder: Path, rounds: int, rng: random.Random) -> Part:
    """So many rounds of the kill test."""

    def progress(number: int) -> None:
        if number % 10 == 0 or number == rounds:
            say(f"round {number} of {rounds}")

    broker = MqbrokerProcess(folder / "broker")
    return guarded("rounds of kill", lambda: run_rounds(broker, folder, rounds, rng, progress))


def failure_rounds(folder: Path, rounds: int, rng: random.Random, setups: Sequence[Setup]) -> list[Part]:
    """So many rounds of failures, shared out among the set-ups."""

    def progress(name: str, number: int, of: int) -> None:
        if number % 5 == 0 or number == of:
            say(f"{name}: {number} of {of}")

    def work(setup: Setup, count: int) -> Outcome:
        return rounds_of(setup, folder / setup.name.replace(" ", "-"), rng, progress).run(count)

    return [guarded(f"failures: {setup.name}", partial(work, setup, count)) for setup, count in shares(rounds, setups)]


def spark_rounds(folder: Path, rounds: int, rng: random.Random) -> list[Part]:
    """So many rounds of each kind of failure around Spark's queries; needs Java and PySpark."""

    def progress(kind: str, number: int, of: int) -> None:
        if number % 5 == 0 or number == of:
            say(f"{kind}: {number} of {of}")

    begin = time.monotonic()
    parts = []
    try:
        with Rounds(folder / "cut", rng, proxied=True, progress=progress) as run:
            parts.append(guarded("Spark: failed tasks", lambda: run.failing_tasks(rounds)))
            parts.append(guarded("Spark: cut connections", lambda: run.cut_connections(rounds)))
        with Rounds(folder / "killed", rng, progress=progress) as run:
            parts.append(guarded("Spark: killed brokers", lambda: run.killed_brokers(rounds)))
            parts.append(guarded("Spark: killed drivers", lambda: run.killed_drivers(rounds)))
    except (ProcessFailed, OSError) as error:
        parts.append(Part("Spark", time.monotonic() - begin, problems=[f"{type(error).__name__}: {error}"]))
    return parts


class MixedRun:
    """Everything at once for a time. After `run`, `parts` and `trends` say what came of it."""

    def __init__(self, folder: Path, seconds: float, rng: random.Random) -> None:
        self.parts: list[Part] = []
        self.trends: list[Trend] = []
        self.judged_seconds = 0.0
        self.series: dict[str, list[dict[str, float]]] = {}
        self._folder = folder
        self._seconds = seconds
        self._rng = rng
        self._broker = MqbrokerProcess(folder / "broker", SETTINGS)
        self._kills = 0
        self._cuts = 0

    def run(self) -> None:
        begin = time.monotonic()
        self._broker.start()
        proxy = CuttingProxy(self._broker.port)

        def url_of(role: Role) -> str:
            return proxy.url if role.name in BEHIND_PROXY else self._broker.url

        clients: list[Clients] = []
        try:
            clients.append(Clients(url_of, self._folder / "logs" / "transfer", ROLES))
            clients.append(Clients(url_of, self._folder / "logs" / "mixed", MIXED_ROLES, "tests.soak.worker"))
            clients.append(Clients(url_of, self._folder / "logs" / "paged", PAGED_ROLES, PAGED_MODULE))
            clients[0].wait_for_load()
            self._under_kills(proxy, clients, begin + self._seconds * KILLED_SHARE)
            self._living_on(proxy, clients, begin + self._seconds)
            say("stopping: the queues run empty")
            let_all_end(clients, lambda: messages_left(self._broker.url))
            self.parts.append(guarded("transfers", clients[0].finish))
            self.parts.append(self._with_activity(guarded("mixed load", lambda: clients[1].finish(judge_mixed))))
            self.parts.append(guarded("paged addresses", lambda: clients[2].finish(judge_paged)))
            self._broker.stop()
        except (ProcessFailed, OSError) as error:
            self.parts.append(Part("mixed run", time.monotonic() - begin, problems=[f"{type(error).__name__}: {error}"]))
        finally:
            for each in clients:
                each.kill()
            proxy.close()
            self._broker.kill()
        self.parts.append(Part("faults", time.monotonic() - begin, {"kills": self._kills, "cuts": self._cuts}))

    @staticmethod
    def _with_activity(part: Part) -> Part:
        return Part(part.name, part.seconds, part.counts, [*part.problems, *judge_activity(dict(part.counts))])

    def _pause(self, seconds: float, clients: list[Clients]) -> None:
        time.sleep(max(0.0, seconds))
        for each in clients:
            each.check()
        self._broker.process.raise_if_dead()

    def _cut(self, proxy: CuttingProxy) -> None:
        """Now and then the broker's answers get lost before the cut, so that clients do not know what was done."""
        if self._rng.random() < 0.5:
            proxy.lose_replies()
            time.sleep(self._rng.uniform(*LOSS_SECONDS))
        proxy.cut()
        self._cuts += 1

    def _under_kills(self, proxy: CuttingProxy, clients: list[Clients], end: float) -> None:
        while time.monotonic() < end:
            self._pause(min(self._rng.uniform(*KILL_SECONDS), end - time.monotonic()), clients)
            if self._rng.random() < 0.3:
                self._cut(proxy)
            self._broker.kill()
            self._broker.start()
            self._kills += 1
            say(f"kill {self._kills}, {end - time.monotonic():.0f} s left of this part")

    def _living_on(self, proxy: CuttingProxy, clients: list[Clients], end: float) -> None:
        begin = time.monotonic()
        pid = self._broker.pid
        data = self._broker.folder / "data"
        subjects = {"broker": lambda: process_sample(pid), "data folder": lambda: {"journal": folder_mib(data)}}
        for each, roles in zip(clients, (ROLES, MIXED_ROLES, PAGED_ROLES), strict=True):
            for role, process in zip(roles, each.processes, strict=True):
                subjects[f"client {role.name}"] = lambda child=process.pid: process_sample(child)
        watch = Watch(subjects, SAMPLE_SECONDS)
        try:
            told = begin
            while time.monotonic() < end:
                self._pause(min(self._rng.uniform(*CUT_SECONDS), end - time.monotonic()), clients)
                self._cut(proxy)
                if time.monotonic() - told > 30:
                    told = time.monotonic()
                    say(f"living on, {end - told:.0f} s left")
        finally:
            watch.stop()
        judged_from = begin + min(WARM_UP_SECONDS_MAX, WARM_UP_SHARE * (end - begin))
        self.judged_seconds = end - judged_from
        self.trends = watch.trends(judged_from)
        self.series = watch.series()
