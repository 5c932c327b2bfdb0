"""The question how many ids a broker keeps is asked once for each address."""

from __future__ import annotations

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from mqclient.core.once import caches
from mqclient.core.once.caches import IdCaches
from mqclient.errors import IdCacheError, ObjectClosedError, SecurityError
from mqclient.wire.packets import IdCacheState
from tests.support.network import FakeRuntime, Network
from tests.unit.mqclient.core.once.test_lookup import run


class CacheTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.asked: list[str] = []
        self.answer: IdCacheState | Exception = IdCacheState(100, True)

    async def ask(self, address: str) -> IdCacheState:
        self.asked.append(address)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def caches(self, size: int = -1) -> IdCaches:
        return IdCaches(FakeRuntime(Clock(), Network()), size, self.ask)

    def test_one_question_for_each_address_until_forgotten(self) -> None:
        found = self.caches()
        self.assertEqual(found.known("a"), None)
        self.assertEqual([run(found.check(each)) for each in ("a", "a", "b")], [100] * 3)
        self.assertEqual((self.asked, found.known("a")), (["a", "b"], 100))
        found.forget()
        run(found.check("a"))
        self.assertEqual(self.asked, ["a", "b", "a"])

    def test_the_word_of_the_application_is_enough(self) -> None:
        self.assertEqual(run(self.caches(7).check("a")), 7)
        self.assertRaises(IdCacheError, run, self.caches(0).check("a"))
        self.assertEqual(self.asked, [])

    def test_a_broker_that_does_not_say(self) -> None:
        self.answer = SecurityError("not allowed")
        self.assertIn("exactlyOnceIdCacheSize", str(self.assertRaises(IdCacheError, run, self.caches().check("a"))))
        self.answer = ObjectClosedError("closed")
        self.assertRaises(ObjectClosedError, run, self.caches().check("a"))

    def test_only_so_many_are_kept(self) -> None:
        self.patch(caches, "ADDRESSES_MAX", 2)
        found = self.caches()
        for each in "abc":
            run(found.check(each))
        self.assertEqual([found.known(each) for each in "abc"], [None, 100, 100])
