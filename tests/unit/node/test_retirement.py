"""A backup that has taken over looks for a broker that takes its messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from twisted.internet.defer import Deferred
from twisted.logger import capturedLogs
from twisted.trial.unittest import SynchronousTestCase

from mqbroker.config.model.cluster import ScaleDownConfiguration
from mqbroker.node.retirement import RETRY_SECONDS, SETTLE_SECONDS, Retirement
from tests.support.clock import FakeClock


class KnownScaleDown:
    """A search for a target whose end a test says."""

    def __init__(self) -> None:
        self.found: Deferred[str | None] = Deferred()
        self.problem = "nobody is there"
        self.told = 0
        self.left = False

    async def find(self) -> str | None:
        return await self.found

    def tell_problem(self) -> None:
        self.told += 1

    def leave(self) -> None:
        self.left = True


class KnownClustering:
    def __init__(self) -> None:
        self.scale_down: Any = None
        self.made: list[KnownScaleDown] = []

    def make_scale_down(self, configuration: ScaleDownConfiguration) -> KnownScaleDown:
        self.made.append(KnownScaleDown())
        return self.made[-1]


class RetirementTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = FakeClock()
        self.clustering = KnownClustering()
        self.leaves: list[Any] = []
        leave = lambda: self.leaves.append(self.clustering.scale_down)  # noqa: E731
        self.retirement = Retirement(self.clock, self.clustering, ScaleDownConfiguration(), leave)  # type: ignore[arg-type]

    def searches(self) -> Sequence[KnownScaleDown]:
        return self.clustering.made

    def test_it_lets_others_deliver_first_and_leaves_when_there_is_a_target(self) -> None:
        self.clock.advance(SETTLE_SECONDS - 0.1)
        self.assertEqual(self.searches(), [])
        self.clock.advance(0.1)
        [search] = self.searches()
        self.assertEqual((self.leaves, self.clustering.scale_down), ([], None))
        search.found.callback("node")
        self.assertEqual((self.leaves, self.clustering.scale_down), ([search], search))

    def test_it_looks_again_and_tells_each_reason_once(self) -> None:
        self.clock.advance(SETTLE_SECONDS)
        for number, problem in enumerate(("nobody is there", "nobody is there", "it refuses")):
            search = self.searches()[number]
            search.problem = problem
            search.found.callback(None)
            self.clock.advance(RETRY_SECONDS)
        self.assertEqual([search.told for search in self.searches()], [1, 0, 1, 0])
        self.assertEqual((self.leaves, self.clustering.scale_down), ([], None))

    def test_after_its_end_it_looks_no_more_and_leaves_a_target_that_it_finds_late(self) -> None:
        self.clock.advance(SETTLE_SECONDS)
        self.retirement.stop()
        [search] = self.searches()
        search.found.callback("node")
        self.clock.advance(2 * RETRY_SECONDS)
        self.assertEqual((search.left, self.leaves, self.clustering.scale_down, len(self.searches())), (True, [], None, 1))

    def test_an_end_before_the_first_search(self) -> None:
        self.retirement.stop()
        self.clock.advance(SETTLE_SECONDS)
        self.assertEqual(self.searches(), [])

    def test_a_defect_is_told(self) -> None:
        self.clock.advance(SETTLE_SECONDS)
        with capturedLogs() as events:
            self.searches()[0].found.errback(ZeroDivisionError("a defect"))
        self.assertIn("the search for a target failed", [event["log_format"] for event in events])
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 1)
