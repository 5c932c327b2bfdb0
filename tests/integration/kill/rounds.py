"""Rounds of `kill -9` under load, and their verdict. The load comes from client processes that log outside the broker."""

from __future__ import annotations

import contextlib
import os
import random
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from mqbroker.cli.management import ManagementError
from mqclient.jms import JMSException
from tests.integration.kill.deliveries import judge_paged
from tests.integration.kill.left import messages_left
from tests.integration.kill.verdict import Event, judge, read_logs
from tests.integration.kill.worker import ALL_CONSUMED, LOOKS, SHOW_STACKS
from tests.interop.mqbroker_process import ROOT
from tests.interop.peers import Peer
from tests.interop.processes import ManagedProcess, ProcessFailed

LOAD_SECONDS = (0.3, 1.2)  # between two kills
START_SECONDS = (0.1, 0.6)  # into a start that is killed as well
KILLED_STARTS = 0.15  # share of the rounds
FIRST_SECONDS = 60.0
STACKS_SECONDS = 10.0  # until a process has written where its main thread stands, which comes last
MAIN_PROGRAM = " in _run_module_as_main"
TOLD_LINES = 150
DRAIN_SECONDS = 120.0
LOOK_SECONDS = 0.1


@dataclass(frozen=True)
class Outcome:
    """What came of it: every violation as a sentence, and how much was confirmed, by verb of the logs."""

    problems: list[str]
    counts: Mapping[str, int]


@dataclass(frozen=True)
class Role:
    """So many clients of one role, in a process of their own; producers send at most one message each `pace_ms`."""

    name: str
    count: int
    pace_ms: int = 0
    only_sends: bool = False


ROLES = (Role("producer", 3, 10, only_sends=True), Role("transactor", 2), Role("xa", 2), Role("consumer", 4))
PAGED_ROLES = (Role("hoarder", 3, 5, only_sends=True), Role("lagger", 3))
PAGED_MODULE = "tests.integration.kill.paged"
PAGE_FILES = "page files"  # in the counts: the most that a killed broker has left


class Clients:
    """The client processes of a run; their logs are in `folder`. `url_of` says where a role connects to."""

    def __init__(
        self, url_of: Callable[[Role], str], folder: Path, roles: Sequence[Role] = ROLES, module: str = "tests.integration.kill.worker"
    ) -> None:
        self.folder = folder
        folder.mkdir(parents=True)
        path = ":".join(str(ROOT / part) for part in (".", "src", "clients/mqclient/src"))
        self.processes: list[ManagedProcess] = []
        self._producers: list[ManagedProcess] = []
        self._sending = [f"{role.name[0]}{number}.log" for role in roles if role.only_sends for number in range(role.count)]
        self._receiving: list[tuple[ManagedProcess, Path]] = []
        self._looks = 0
        for role in roles:
            command = [sys.executable, "-m", module, role.name, str(role.count), url_of(role), str(folder), str(role.pace_ms)]
            process = ManagedProcess(command, ROOT, {"PYTHONPATH": path})
            self.processes.append(process)
            if role.only_sends:
                self._producers.append(process)
            else:
                self._receiving += [(process, folder / f"{role.name[0]}{number}.log") for number in range(role.count)]

    def wait_for_load(self) -> None:
        """Return when the first message has made its way through all three roles; raises ProcessFailed."""
        deadline = time.monotonic() + FIRST_SECONDS
        while not any(b" acked " in path.read_bytes() for path in self.folder.glob("c*.log")):
            for process in self.processes:
                process.raise_if_dead()
            if time.monotonic() > deadline:
                raise ProcessFailed("no message came through\n" + "\n".join(process.tail() for process in self.processes))
            time.sleep(0.05)

    def sent(self) -> list[int]:
        """How many messages of each producer were confirmed."""
        return [(self.folder / name).read_bytes().count(b" sent ") for name in self._sending]

    def standing(self, before: Sequence[int]) -> list[str]:
        """The names of the producers of which no message was confirmed since :meth:`sent` gave this."""
        return [name for name, then, now in zip(self._sending, before, self.sent(), strict=True) if now == then]

    def told(self) -> str:
        """The last lines of each client process, with the places at which its threads stand."""
        for process in self.processes:
            if not process.has_ended():
                before = len(process.output())
                os.kill(process.pid, SHOW_STACKS)
                with contextlib.suppress(ProcessFailed):
                    process.wait_for_line(MAIN_PROGRAM, STACKS_SECONDS, before)
        return "\n".join(line for process in self.processes for line in process.output()[-TOLD_LINES:])

    def look(self) -> None:
        """Begin to ask whether the clients have worked off what they hold now."""
        with (self.folder / LOOKS).open("a") as looks:
            looks.write(".")
        self._looks += 1

    def have_cleared(self) -> bool:
        """Has each client that receives, and has not ended, answered the last look?"""
        answer = f" clear {self._looks}\n".encode()
        return all(process.has_ended() or (log.exists() and answer in log.read_bytes()) for process, log in self._receiving)

    def check(self) -> None:
        for process in self.processes:
            process.raise_if_dead()

    def check_consumers(self) -> None:
        """Raises ProcessFailed when one has failed; those that were asked to stop may have ended."""
        self._await([process for process, _ in self._receiving if process.has_ended()])

    def ask_to_stop(self) -> None:
        (self.folder / "stop").touch()

    def await_producers(self) -> None:
        """Return when they have ended; raises ProcessFailed when one hangs or fails."""
        self._await(self._producers)

    def let_consumers_end(self) -> None:
        (self.folder / ALL_CONSUMED).touch()

    def finish(self, verdict: Callable[[list[Event]], list[str]] = judge) -> Outcome:
        """Judge what they have logged, after :func:`let_all_end`; raises ProcessFailed when one hangs or fails."""
        self._await(self.processes)
        events = read_logs(sorted(self.folder.glob("*.log")))
        counts: dict[str, int] = {}
        for event in events:
            counts[event.verb] = counts.get(event.verb, 0) + 1
        return Outcome(verdict(events), counts)

    @staticmethod
    def _await(processes: Sequence[ManagedProcess]) -> None:
        for process in processes:
            status = process.wait(DRAIN_SECONDS)
            if status != 0:
                raise ProcessFailed(f"a client ended with status {status}\n{process.tail()}")

    def kill(self) -> None:
        for process in self.processes:
            process.kill()


def let_all_end(clients: Sequence[Clients], left: Callable[[], object]) -> None:
    """When the producers have ended, the others empty the queues and end.

    ``left`` tells of what the queues still have, if anything.  Raises ProcessFailed when a producer hangs or fails, or something stays.
    """
    for each in clients:
        each.ask_to_stop()
    for each in clients:
        each.await_producers()
    deadline = time.monotonic() + DRAIN_SECONDS
    # One answer is not enough: queues are asked one after the other, and a message may go to one that was asked from one that was not yet.
    while found := _found(left) or _found(left):
        for each in clients:
            each.check_consumers()
        if time.monotonic() > deadline:
            told = "\n".join(each.told() for each in clients)
            raise ProcessFailed(f"the clients do not consume everything: {found} is left\n{told}")
        time.sleep(LOOK_SECONDS)
    for each in clients:
        each.let_consumers_end()


def _found(left: Callable[[], object]) -> object:
    """The answer of ``left``, or the reason why it has none: the next question may have one."""
    try:
        return left()
    except (JMSException, ManagementError) as error:
        return error


def kill_while_starting(broker: Peer, rng: random.Random) -> None:
    """Start the broker and kill it at some moment of the start: while it reads its journal, or just after."""
    broker.launch()
    time.sleep(rng.uniform(*START_SECONDS))
    broker.kill()


def run_rounds(
    broker: Peer, folder: Path, rounds: int, rng: random.Random, progress: Callable[[int], None] = lambda number: None
) -> Outcome:
    """Kill and start `broker` (which is not started yet) so many times under load; `progress` hears of each round."""
    broker.start()
    pages = 0
    clients: list[Clients] = []
    try:
        clients.append(Clients(lambda role: broker.url, folder / "logs"))
        clients.append(Clients(lambda role: broker.url, folder / "paged-logs", PAGED_ROLES, PAGED_MODULE))
        clients[0].wait_for_load()
        for number in range(rounds):
            time.sleep(rng.uniform(*LOAD_SECONDS))
            broker.kill()
            pages = max(pages, page_files(broker.folder))
            if rng.random() < KILLED_STARTS:
                kill_while_starting(broker, rng)
            broker.start()
            for each in clients:
                each.check()
            progress(number + 1)
        let_all_end(clients, lambda: messages_left(broker.url))
        plain, paged = clients[0].finish(), clients[1].finish(judge_paged)
        counts = {**plain.counts, **{f"paged {verb}": count for verb, count in paged.counts.items()}, PAGE_FILES: pages}
        return Outcome([*plain.problems, *paged.problems], counts)
    finally:
        for each in clients:
            each.kill()
        broker.kill()


def page_files(folder: Path) -> int:
    return sum(1 for path in (folder / "data" / "paging").rglob("*.page"))
