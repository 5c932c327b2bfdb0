from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from mqbroker.ha.replication.replica_machine import ReplicaData, make_replica

FORWARD = ("greeted", "copied", "caught_up", "noted", "completed")
WORK = ("begin_copy", "demand", "note", "complete", "show")


class Core:
    def __init__(self) -> None:
        self.done: list[str] = []

    def __getattr__(self, name: str) -> Any:
        return lambda: self.done.append(name)


class ReplicaMachineTests(SynchronousTestCase):
    @given(st.integers(0, len(FORWARD)), st.lists(st.sampled_from(("copied", "caught_up", "noted", "ended"))))
    def test_the_end_asks_for_a_proof_from_the_moment_when_the_replica_is_noted(self, steps: int, late: list[str]) -> None:
        core = Core()
        machine = make_replica(ReplicaData(core))
        for name in FORWARD[:steps]:
            getattr(machine, name)()
        machine.ended()
        for name in late:
            getattr(machine, name)()
        self.assertEqual(core.done, [*WORK[:steps], "lose" if steps >= 3 else "leave"])
        self.assertEqual(machine.state(), "over")
