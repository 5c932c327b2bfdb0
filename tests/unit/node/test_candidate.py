from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from mqbroker.node.candidate import Candidate


class Everything:
    """Stands for the life and for its store."""

    def __init__(self) -> None:
        self.told: list[Any] = []

    def __getattr__(self, name: str) -> Any:
        return lambda *args: self.told.append((name, *args))


class CandidateTests(SynchronousTestCase):
    def test_the_life_and_its_store_hear_what_the_activation_decides(self) -> None:
        life: Any = Everything()
        candidate = Candidate(life, lambda: life.told.append("activate"), life)
        candidate.granted()
        candidate.lost("why")
        candidate.give_way(True)
        candidate.start_again("n", print)
        ready: Deferred[None] = Deferred()
        candidate.begin_again(ready)
        candidate.take_brokers("n", print)
        candidate.take_nobody()
        self.assertEqual(
            life.told,
            [
                "activate",
                ("fence", "why"),
                ("give_way", True),
                ("start_again", "n", print),
                ("begin_again", ready),
                ("take_brokers", "n", print),
                ("take_nobody",),
            ],
        )
        self.assertTrue(candidate.at_once)
