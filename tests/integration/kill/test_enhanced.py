"""`kill -9` under load of members of an enhanced cluster: what they had confirmed is at the takers, exactly once."""

from __future__ import annotations

import os
import random
import time
import unittest
from dataclasses import dataclass

from mqbroker.cli.demo.traffic import Consumer, Ledger, Producer, Worker
from mqbroker.storage.shared.brokers import State
from tests.integration.imq.enhanced import EnhancedProcesses
from tests.support.postgresql import PostgresqlServer, refuse_without

ROUNDS = 3
SECONDS = 40.0
DOUBT_SECONDS = 3.0
FOLLOW = "useTopologyForLoadBalancing=false&ha=true&exactlyOnce=true&reconnectAttempts=-1&retryInterval=100&maxRetryInterval=200"


@dataclass(frozen=True)
class Home:
    name: str
    url: str


class EnhancedKillTests(unittest.TestCase):
    def until(self, condition, what: str) -> None:  # type: ignore[no-untyped-def]
        deadline = time.monotonic() + SECONDS
        while not condition():
            self.assertLess(time.monotonic(), deadline, f"in {SECONDS:g} s it did not come to this: {what}")
            time.sleep(0.1)

    def rounds(self, members: EnhancedProcesses) -> None:
        self.addCleanup(members.close)
        seed = int(os.environ.get("MQBROKER_SEED") or random.getrandbits(32))
        rng = random.Random(seed)
        homes = [Home(f"b{number}", members.url(number, FOLLOW)) for number in range(members.count)]
        ledger = Ledger()
        producers = [Producer("one", homes[0], ledger, 150), Producer("two", homes[1], ledger, 100)]
        consumers = [Consumer("three", homes[1], ledger, 150), Consumer("four", homes[2], ledger, 150)]
        workers: list[Worker] = [*producers, *consumers]
        for worker in workers:
            worker.start()
            self.addCleanup(worker.end)
        for _ in range(ROUNDS):
            before = ledger.totals()[1]
            self.until(lambda before=before: ledger.totals()[1] > before + 50, "the load goes on")
            victim = rng.randrange(members.count)
            members.kill(victim)
            self.until(lambda victim=victim: members.state(victim) is State.FAILOVER_COMPLETE, f"b{victim} is taken over")
            members.restart(victim)
        for producer in producers:
            producer.end()
        for consumer in consumers:
            consumer.drain()
        # What was read in a transaction whose end is not known comes again, or does not.
        deadline = time.monotonic() + SECONDS
        while len(set(ledger.totals())) > 1 and time.monotonic() < deadline:
            time.sleep(0.1)
        time.sleep(0 if ledger.complete() else DOUBT_SECONDS)
        for worker in workers:
            worker.end()
            worker.join(20)
        verdict = ledger.verdict()
        self.assertTrue(verdict.good, f"{verdict}; replay with MQBROKER_SEED={seed}")
        self.assertGreater(verdict.sent, 50 * ROUNDS, "hardly any load")
        self.until(lambda: members.left() == (0, 0), f"no message and no branch is left; replay with MQBROKER_SEED={seed}")

    def test_sqlite(self) -> None:
        self.rounds(EnhancedProcesses(3))

    def test_postgresql(self) -> None:
        refuse_without()
        server = PostgresqlServer()
        self.addCleanup(server.close)
        database = server.database()
        self.rounds(EnhancedProcesses(3, f"jdbc:{database.name}", database))
