"""A replicated pair of ours for which a real Artemis broker votes: it is asked, and answers, as Java brokers ask each other."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from unittest import TestCase

import pytest

from mqclient.jms import ConnectionFactory
from tests.integration.ha.failures.network import Network, both_ways
from tests.interop.ha.pairs import BACKUP, PRIMARY, REPLICATION, VOTER, Pair
from tests.interop.instance import PASSWORD, USER

SECONDS = 120.0
"""On a busy machine."""
RECEIVE_MS = 20_000
COPIED = "AMQ221024: this replica is in sync"
ACTIVE = "Server is now active"
GIVEN = "1 of 1 voters have given sequence {} to"
NO_PROOF = "this broker may not be active yet"
SEARCHES = 3
"""So many without a proof tell a broker that stays passive from one that takes its time."""


@pytest.mark.usefixtures("java")
class JavaVoterTests(TestCase):
    def start(self, proxied: bool) -> Pair:
        temporary = tempfile.TemporaryDirectory(prefix="mqbroker-java-voter-")
        self.addCleanup(temporary.cleanup)
        self.pair = pair = Pair(REPLICATION, "mqbroker", Path(temporary.name), voters=1, voter="artemis", proxied=proxied)
        self.addCleanup(pair.__exit__, None, None, None)
        # It knows connections that are made from now on.
        self.network = Network(pair.proxies, pair.process_ids)
        self.addCleanup(self.network.heal, True)
        pair.start()
        # The start says that the guarantee is the peer's.
        self.awaits(PRIMARY, "Java brokers vote here")
        return pair

    def awaits(self, number: int, text: str) -> str:
        return self.pair.process(number).wait_for_line(text, SECONDS)

    def send(self, number: int, body: str) -> None:
        with ConnectionFactory(self.pair[number].url).create_context(USER, PASSWORD) as context:
            context.create_producer().send(context.create_queue("q"), body)

    def assert_received(self, number: int, bodies: Sequence[str]) -> None:
        with ConnectionFactory(self.pair[number].url).create_context(USER, PASSWORD) as context:
            consumer = context.create_consumer(context.create_queue("q"))
            messages = [consumer.receive(RECEIVE_MS) for _ in bodies]
            self.assertEqual([message and message.text for message in messages], bodies)

    def assert_passive(self, number: int) -> None:
        def searches() -> int:
            return sum(NO_PROOF in line for line in self.pair.process(number).output())

        begun = searches()
        self.pair.wait_until(lambda: searches() >= begun + SEARCHES, f"broker {number} seeks in vain", SECONDS)
        self.assertFalse([line for line in self.pair.process(number).output() if ACTIVE in line])

    def copies(self) -> int:
        """How often the backup was in sync."""
        return sum(COPIED in line for line in self.pair.process(BACKUP).output())

    def assert_no_errors(self, but: str | None = None) -> None:
        """The voter has logged no error, except for those with the code ``but``."""
        errors = [line for line in self.pair.process(VOTER).output() if " ERROR " in line]
        self.assertEqual([line for line in errors if but is None or but not in line], [])

    def test_who_is_left_goes_on_when_the_voter_says_that_the_other_one_is_gone(self) -> None:
        pair = self.start(proxied=False)
        self.send(PRIMARY, "a")
        pair[PRIMARY].kill()
        self.awaits(BACKUP, GIVEN.format(2))
        self.awaits(BACKUP, ACTIVE)
        pair[PRIMARY].launch()
        self.awaits(PRIMARY, COPIED)
        self.send(BACKUP, "b")
        self.assert_no_errors()
        pair[VOTER].kill()
        pair[BACKUP].kill()
        self.assert_passive(PRIMARY)
        pair[VOTER].start()
        self.awaits(PRIMARY, ACTIVE)
        self.assert_received(PRIMARY, ["a", "b"])

    def test_of_two_that_do_not_hear_each_other_the_active_one_goes_on(self) -> None:
        pair = self.start(proxied=True)
        network = self.network
        before = self.copies()
        network.cut(both_ways([(PRIMARY, BACKUP)]))
        self.send(PRIMARY, "a")
        self.awaits(PRIMARY, GIVEN.format(2))
        self.assert_passive(BACKUP)
        # The voter keeps its link to the primary: it takes note only of the end of a link that it has.
        network.heal(lost=False)
        pair.wait_until(lambda: self.copies() > before, "the backup has all again", SECONDS)
        network.cut(both_ways([(BACKUP, VOTER)]))
        # With its place: for Java brokers somebody is there as long as connections come about.
        pair.proxies[PRIMARY].close()
        pair[PRIMARY].kill()
        self.assert_passive(BACKUP)
        network.heal(lost=True)
        self.awaits(BACKUP, ACTIVE)
        self.assert_received(BACKUP, ["a"])
        # The cut, or the end of the primary's place, may break a connection while the voter makes it.
        self.assert_no_errors(but="AMQ214016")
