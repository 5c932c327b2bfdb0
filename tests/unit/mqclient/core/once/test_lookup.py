"""The outcome of a commit is found out, whatever is lost on the way."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from itertools import count
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from mqclient.core.once.lookup import has_happened


def run(coroutine: Any) -> Any:
    """The result of a coroutine that waits for nothing."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        return end.value
    raise AssertionError("the coroutine waits")


class Broker:
    """Remembers ids.  ``fates`` are those of the claims to come: answered, without effect, or with an effect that nobody hears of."""

    def __init__(self, fates: Sequence[str]) -> None:
        self.known: set[str] = set()
        self.fates = list(fates)
        self.claims = 0

    def take(self, ids: Sequence[str]) -> bool:
        if self.known & set(ids):
            return False
        self.known |= set(ids)
        return True

    async def claim(self, ids: Sequence[str]) -> bool | None:
        self.claims += 1
        fate = self.fates.pop(0) if self.fates else "answered"
        if fate == "dropped":
            return None
        taken = self.take(ids)
        return taken if fate == "answered" else None


FATES = st.lists(st.sampled_from(["answered", "dropped", "unheard"]), max_size=12)


class LookupTests(SynchronousTestCase):
    def ids(self) -> Callable[[], str]:
        numbers = count()
        return lambda: f"claim-{next(numbers)}"

    @given(FATES, st.booleans())
    def test_the_answer_is_true_if_and_only_if_the_commit_has_happened(self, fates: list[str], happened: bool) -> None:
        broker = Broker(fates)
        if happened:
            broker.take(["commit"])
        self.assertEqual(run(has_happened(broker.claim, "commit", self.ids())), happened)

    @given(FATES)
    def test_after_a_no_a_late_commit_is_refused(self, fates: list[str]) -> None:
        broker = Broker(fates)
        if not run(has_happened(broker.claim, "commit", self.ids())):
            self.assertFalse(broker.take(["commit"]))

    @given(FATES, st.integers(0, 12))
    def test_a_commit_that_arrives_in_between_is_told_truly(self, fates: list[str], at: int) -> None:
        broker = Broker(fates)
        accepted: list[bool] = []

        def claim(ids: Sequence[str]) -> Awaitable[bool | None]:
            if broker.claims == at:
                accepted.append(broker.take(["commit"]))
            return broker.claim(ids)

        found = run(has_happened(claim, "commit", self.ids()))
        self.assertEqual(found, accepted == [True])

    def test_without_failures_one_claim_is_enough(self) -> None:
        broker = Broker([])
        self.assertFalse(run(has_happened(broker.claim, "commit", self.ids())))
        self.assertEqual(broker.claims, 1)
