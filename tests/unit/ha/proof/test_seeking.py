"""A copy that seeks the proof: whom it asks, what settles it, and what it says to others meanwhile."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from twisted.internet.defer import Deferred, succeed
from twisted.logger import capturedLogs, formatEvent
from twisted.trial.unittest import SynchronousTestCase

from mqbroker.ha.proof.copy_keeper import CopyKeeper
from mqbroker.ha.proof.copy_record import CopyRecord, CopyState, CopyStateError, OtherCopy, open_record, read_record
from mqbroker.ha.proof.meeting import MEETING, Activity, Standing
from mqbroker.ha.proof.noted_copy import AGAIN_SECONDS
from mqbroker.ha.proof.ports import Choice, Purpose, RefusedError, SilentError, UnreachableError
from mqbroker.ha.proof.reading_timer import READ_SECONDS
from mqbroker.ha.proof.rules import ProofRules
from mqbroker.ha.proof.seeking import Seeker
from mqbroker.ha.proof.voter import Voter
from mqclient.errors import MalformedPacketError
from tests.support.clock import FakeClock
from tests.support.copies import asked_of_ours
from tests.support.disk import SimulatedDisk
from tests.support.diskwriter import SimulatedDiskWriter
from tests.support.settings_store import SettingsStore

FOLDER = "/data/journal"
OTHER = OtherCopy("other", "tcp://other:61616")
THEIRS = Standing("node", "other", Activity.SEEKING, CopyState.COMPLETE, 3, primary=False, noted="own", search="s2")


class Broker:
    """The owner and the network of one copy: keeps what it is told, and answers when a test says so."""

    def __init__(
        self, record: CopyRecord, voters: Sequence[str], rules: ProofRules, network_answers: Callable[[], Deferred[bool]] | None = None
    ) -> None:
        self.clock = FakeClock()
        self.disk = SimulatedDisk(random.Random(1))
        self.disk.make_directory(FOLDER)
        self.writer = SimulatedDiskWriter()
        self.told: list[Any] = []
        self.ready: Deferred[None] = succeed(None)
        self.looked = 0
        self.asked: list[tuple[str, str, bytes, Deferred[bytes]]] = []
        self.voter_stores: list[Any] = []
        self.keeper = CopyKeeper(self.disk, FOLDER, open_record(self.disk, FOLDER, lambda: record), self.writer.submit, self.failed)
        ways: Any = self
        entropy = random.Random(2).randbytes
        self.seeker = Seeker(self.keeper, "node", rules, lambda: voters, ways, self, self.clock, entropy, "", network_answers)
        self.voters = {name: self._voter(name) for name in voters}
        self.silent: set[str] = set()

    def _voter(self, name: str) -> Voter:
        store: Any = SettingsStore()
        store.when_synced = lambda ticket, function, *args: function(*args)
        return Voter(store, name, {})

    # the owner

    def begin_seeking(self) -> Deferred[None]:
        self.told.append("begin seeking")
        return self.ready

    def look_around(self) -> None:
        self.looked += 1

    def end_clients(self) -> None:
        self.told.append("end clients")

    def granted(self, sequence: int, text: str) -> None:
        self.told.append(("granted", sequence))

    def refused(self, reason: str, other: Standing | None) -> None:
        self.told.append(("refused", None if other is None else other.copy_id))

    def stop_copying(self) -> None:
        self.told.append("stop copying")

    def failed(self, reason: str) -> None:
        self.told.append(("failed", reason))

    # the network

    def ask_copy(self, connector: str, handler: str, question: bytes) -> Deferred[bytes]:
        answer: Deferred[bytes] = Deferred()
        self.asked.append((connector, handler, question, answer))
        return answer

    def ask_voter(self, node_id: str, choose: Choice) -> Deferred[bytes]:
        _, question = asked_of_ours(choose)
        answer: Deferred[bytes] = Deferred()
        if node_id in self.silent:
            answer.errback(UnreachableError("nobody"))
        else:
            self.voters[node_id].answer(question).chainDeferred(answer)
        return answer

    # what a test does

    def reply(self, standing: Standing | None) -> Standing:
        """The other copy answers the last question, or nobody does; returns the question."""
        connector, handler, question, answer = self.asked.pop()
        assert (connector, handler) == (OTHER.connector, MEETING)
        if standing is None:
            answer.errback(UnreachableError("nobody listens"))
        else:
            asked = Standing.decode(question)
            answer.callback(replace(standing, word_for=standing.word_for or asked.search).encode())
        self.writer.run()
        return Standing.decode(question)

    def nobody(self) -> None:
        """Nobody listens at the place of the other copy, as often as it is asked."""
        while self.asked:
            self.reply(None)
            self.clock.advance(AGAIN_SECONDS)
            self.writer.run()

    def silence(self) -> None:
        """Somebody takes the connection to the other copy, and says nothing."""
        self.asked.pop()[3].errback(SilentError("nothing comes back"))
        self.writer.run()

    def question(self, standing: Standing) -> Deferred[bytes]:
        return self.seeker.answer(standing.encode())

    @property
    def record(self) -> CopyRecord:
        found = read_record(self.disk, FOLDER)
        assert found is not None
        return found


class SeekingCase(SynchronousTestCase):
    def broker(
        self, voters: Sequence[str] = (), rules: ProofRules | None = None, other: OtherCopy | None = OTHER, **options: Any
    ) -> Broker:
        record = replace(CopyRecord("own", CopyState.COMPLETE, 3, other), **options)
        return Broker(record, voters, rules or ProofRules(primary=True))

    def started(self, *voters: str, rules: ProofRules | None = None) -> Broker:
        broker = self.broker(voters, rules)
        broker.seeker.seek(Purpose.START)
        self.assertEqual(broker.told, ["begin seeking"])
        broker.told.clear()
        return broker

    def active(self, *voters: str, rules: ProofRules | None = None) -> Broker:
        """Active at sequence 4, with a replica in sync that it has just lost."""
        broker = self.broker(voters, rules, other=None)
        broker.seeker.seek(Purpose.START)
        broker.writer.run()
        broker.seeker.note(OTHER)
        broker.writer.run()
        broker.told.clear()
        broker.seeker.seek(Purpose.GO_ON)
        return broker

    def in_sync(self, *voters: str) -> Broker:
        """A backup that was in sync at sequence 3 until now."""
        broker = Broker(CopyRecord("own", CopyState.INCOMPLETE), voters, ProofRules(primary=False))
        copying = broker.seeker.begin_copy(OTHER)
        broker.writer.run()
        self.successResultOf(copying).complete(3, OTHER)
        broker.writer.run()
        broker.seeker.seek(Purpose.TAKE_OVER)
        broker.told.clear()
        return broker

    def assert_granted(self, broker: Broker, sequence: int) -> None:
        self.assertEqual(broker.told, [("granted", sequence)])
        self.assertEqual((broker.record.sequence, broker.record.shared, broker.seeker.alone), (sequence, False, True))
        self.assertEqual(broker.clock.pending, 0)

    def answer_of(self, broker: Broker, standing: Standing) -> Standing:
        answer = broker.question(standing)
        broker.writer.run()
        return Standing.decode(self.successResultOf(answer))


class NetworkCheckTests(SeekingCase):
    def setUp(self) -> None:
        self.looks: list[Deferred[bool]] = []

    def look(self) -> Deferred[bool]:
        self.looks.append(Deferred())
        return self.looks[-1]

    def checked(self, *, other: OtherCopy | None = OTHER) -> Broker:
        record = CopyRecord("own", CopyState.COMPLETE, 3, other)
        return Broker(record, (), ProofRules(primary=True, check_for_active_server=False), self.look)

    def test_no_answer_is_a_veto_and_nobody_is_asked(self) -> None:
        broker = self.checked()
        broker.seeker.seek(Purpose.START)
        self.looks.pop().callback(False)
        broker.writer.run()
        self.assertEqual((broker.seeker.state, broker.record.sequence, broker.told), ("waiting to ask again", 3, ["begin seeking"]))
        broker.clock.advance(10)
        self.looks.pop().callback(True)
        broker.writer.run()
        self.assertEqual(broker.told[-1], ("granted", 4))

    def test_an_answer_is_no_proof(self) -> None:
        broker = Broker(CopyRecord("own", CopyState.COMPLETE, 3, OTHER), (), ProofRules(primary=True), self.look)
        broker.seeker.seek(Purpose.START)
        self.looks.pop().callback(True)
        broker.nobody()
        self.assertEqual((broker.seeker.state, broker.told), ("waiting to ask again", ["begin seeking"]))

    def test_an_active_broker_that_lost_its_replica_goes_on_without_asking_the_network(self) -> None:
        broker = self.checked(other=None)
        broker.seeker.seek(Purpose.START)
        self.looks.pop().callback(True)
        broker.writer.run()
        broker.seeker.note(OTHER)
        broker.writer.run()
        broker.seeker.seek(Purpose.GO_ON)
        self.assertEqual((self.looks, len(broker.asked)), ([], 1))

    def test_an_answer_that_comes_after_the_end_starts_nothing(self) -> None:
        broker = self.checked()
        broker.seeker.seek(Purpose.START)
        broker.seeker.cease()
        self.looks.pop().callback(True)
        broker.writer.run()
        self.assertEqual((broker.seeker.state, broker.record.sequence), ("passive", 3))


class OwnDataTests(SeekingCase):
    def test_data_that_nobody_else_has_need_no_proof(self) -> None:
        broker = self.broker(other=None)
        broker.seeker.seek(Purpose.START)
        self.assertEqual((broker.told, broker.seeker.alone), (["begin seeking"], False))
        broker.writer.run()
        broker.told.remove("begin seeking")
        self.assert_granted(broker, 4)
        self.assertEqual(broker.asked, [])

    def test_the_sequence_is_durable_before_the_grant(self) -> None:
        broker = self.broker(other=None)
        broker.seeker.seek(Purpose.START)
        self.assertEqual((broker.record.sequence, broker.seeker.state), (3, "raising the sequence"))
        broker.disk.fail("sync", OSError(5, "input/output error"))
        broker.writer.run()
        self.assertEqual([each[0] for each in broker.told if isinstance(each, tuple)], ["failed"])
        self.assertFalse(broker.seeker.alone)

    def test_nobody_is_asked_before_the_voters_can_be_told(self) -> None:
        broker = self.broker(("v1",))
        broker.ready = Deferred()
        broker.seeker.seek(Purpose.START)
        self.assertEqual((broker.asked, broker.seeker.standing.activity), ([], Activity.SEEKING))
        broker.ready.callback(None)
        self.assertEqual(len(broker.asked), 1)

    def test_a_search_that_ceases_before_the_voters_can_be_told_asks_nobody(self) -> None:
        broker = self.broker(("v1",))
        ready = broker.ready = Deferred()
        broker.seeker.seek(Purpose.START)
        broker.seeker.cease()
        ready.callback(None)
        self.assertEqual((broker.asked, broker.seeker.standing.activity), ([], Activity.PASSIVE))

    def test_data_that_are_incomplete_never_become_active(self) -> None:
        for state in (CopyState.INCOMPLETE, CopyState.GIVEN_UP):
            broker = self.broker(other=None, state=state)
            self.assertFalse(broker.seeker.may_seek)
            broker.seeker.seek(Purpose.START)
            self.assertEqual(broker.told, ["begin seeking", ("refused", None)])

    def test_a_search_that_ceases_while_the_sequence_is_raised_grants_nothing(self) -> None:
        broker = self.broker(other=None)
        broker.seeker.seek(Purpose.START)
        broker.seeker.cease()
        broker.writer.run()
        self.assertEqual((broker.told, broker.seeker.state, broker.record.sequence), (["begin seeking"], "passive", 4))


class WordTests(SeekingCase):
    def test_the_copy_in_the_note_gives_itself_up(self) -> None:
        broker = self.started()
        asked = broker.reply(replace(THEIRS, state=CopyState.GIVEN_UP, activity=Activity.PASSIVE))
        self.assertEqual((asked.activity, asked.noted, asked.sequence, bool(asked.search)), (Activity.SEEKING, "other", 3, True))
        self.assert_granted(broker, 4)

    def test_the_word_of_another_one_or_of_a_later_sequence_is_none(self) -> None:
        given_up = replace(THEIRS, state=CopyState.GIVEN_UP, activity=Activity.PASSIVE)
        for word in (replace(given_up, copy_id="third"), replace(given_up, node_id="elsewhere"), replace(given_up, copy_id="own")):
            broker = self.started()
            broker.reply(word)
            self.assertEqual((broker.told, broker.seeker.state), ([], "waiting to ask again"))
        broker = self.started()
        broker.reply(replace(given_up, word_for="an earlier search"))
        self.assertEqual((broker.told, broker.seeker.state), ([], "waiting to ask again"))
        broker = self.started()
        broker.reply(replace(given_up, sequence=4))
        self.assertEqual(broker.told, [("refused", "other")])

    def test_a_word_comes_with_a_visit_that_names_the_search(self) -> None:
        broker = self.started()
        search = Standing.decode(broker.asked[-1][2]).search
        word = replace(THEIRS, state=CopyState.INCOMPLETE, sequence=0, activity=Activity.PASSIVE, search="")
        self.answer_of(broker, replace(word, word_for="an earlier search"))
        self.assertEqual(broker.told, [])
        self.assertEqual(self.answer_of(broker, replace(word, word_for=search)).activity, Activity.ACTIVE)
        self.assert_granted(broker, 4)

    def test_an_active_one_or_a_preferred_one_goes_on(self) -> None:
        broker = self.started()
        broker.reply(replace(THEIRS, activity=Activity.ACTIVE, sequence=4, search=""))
        self.assertEqual((broker.told, broker.record.complete), ([("refused", "other")], True))
        broker = self.started()
        broker.reply(replace(THEIRS, sequence=4, noted="third"))
        self.assertEqual(broker.told, [("refused", "other")])

    def test_a_copy_that_is_to_yield_does_so_by_itself(self) -> None:
        broker = self.started(rules=ProofRules(primary=False))
        broker.reply(replace(THEIRS, primary=True))
        self.assertEqual((broker.told, broker.record.state), ([("refused", "other")], CopyState.GIVEN_UP))
        word = broker.reply(replace(THEIRS, primary=True))
        self.assertEqual((word.state, word.word_for), (CopyState.GIVEN_UP, ""), "said before it was durable, so that it is no word")
        self.assertEqual(broker.reply(THEIRS).word_for, "s2")

    def test_an_answer_that_cannot_be_read_settles_nothing(self) -> None:
        broker = self.in_sync()
        broker.asked.pop()[3].callback(b"garbage")
        self.assertEqual((broker.told, broker.seeker.state), ([], "waiting to ask again"))

    def test_it_asks_again_until_it_is_settled(self) -> None:
        broker = self.started()
        for _ in range(3):
            broker.reply(None)
            self.assertEqual((broker.asked, broker.told), ([], []))
            broker.clock.advance(1.6)
        broker.reply(replace(THEIRS, state=CopyState.GIVEN_UP))
        self.assert_granted(broker, 4)

    def test_while_it_waits_it_looks_for_another_copy_that_is_active_and_is_refused_when_it_meets_one(self) -> None:
        for other, told in (
            (replace(THEIRS, copy_id="third", activity=Activity.ACTIVE, noted="", search="", sequence=4), [("refused", "third")]),
            (replace(THEIRS, copy_id="third", activity=Activity.ACTIVE, noted="", search="", sequence=4, node_id="another"), []),
            (replace(THEIRS, copy_id="third", noted="", search="", sequence=4), []),
            (None, []),
        ):
            broker = self.started()
            broker.reply(None)
            self.assertEqual((broker.looked, broker.seeker.state), (1, "waiting to ask again"))
            broker.seeker.meet(OTHER.connector)
            broker.reply(other)
            self.assertEqual(broker.told, told)

    def test_a_search_that_began_after_a_meeting_is_not_refused_by_it(self) -> None:
        broker = self.started()
        broker.reply(None)
        broker.seeker.meet(OTHER.connector)
        met = broker.asked.pop()
        broker.seeker.cease()
        broker.seeker.seek(Purpose.START)
        broker.told.clear()
        broker.asked.append(met)
        broker.reply(replace(THEIRS, copy_id="third", activity=Activity.ACTIVE, noted="", search="", sequence=4))
        self.assertEqual(broker.told, [])

    def test_one_that_gave_itself_up_can_take_that_back_only_by_the_other_ones_word(self) -> None:
        broker = self.broker(("v0",), copy_id="z", state=CopyState.GIVEN_UP)
        self.assertTrue(broker.seeker.may_seek)
        broker.seeker.seek(Purpose.START)
        broker.reply(None)
        self.assertEqual(broker.told, ["begin seeking"])
        broker.clock.advance(1.6)
        broker.reply(replace(THEIRS, state=CopyState.GIVEN_UP, activity=Activity.PASSIVE, noted=""))
        self.assertEqual((broker.told[1:], broker.record.complete), ([("granted", 4)], True))


class AloneTests(SeekingCase):
    def test_a_replica_in_sync_takes_over_when_nobody_is_there(self) -> None:
        broker = self.in_sync()
        broker.nobody()
        self.assert_granted(broker, 4)
        self.assertTrue(broker.record.took_over)

    def test_two_seconds_without_an_answer_are_enough(self) -> None:
        broker = self.in_sync()
        broker.clock.advance(1.9)
        self.assertEqual(broker.told, [])
        broker.clock.advance(0.2)
        broker.writer.run()
        self.assert_granted(broker, 4)
        self.flushLoggedErrors()

    def assert_waits(self, broker: Broker, seconds: float) -> None:
        """A place that refuses for so long is not absence yet, and an answer counts."""
        start = broker.clock.seconds
        while broker.clock.seconds < start + seconds:
            broker.reply(None)
            self.assertEqual((broker.told, broker.asked), ([], []))
            broker.clock.advance(AGAIN_SECONDS)
        broker.reply(replace(THEIRS, activity=Activity.ACTIVE, sequence=9, search=""))
        self.assertEqual(broker.told[-1], ("refused", "other"))

    def test_the_place_of_a_replica_has_to_refuse_for_two_seconds(self) -> None:
        """It may be about to open its acceptors."""
        self.assert_waits(self.active(), 1.9)

    def test_the_place_of_an_active_broker_has_to_refuse_again(self) -> None:
        self.assert_waits(self.in_sync(), 0.1)

    def test_a_replica_takes_over_at_once_from_an_active_broker_that_is_gone(self) -> None:
        broker = self.in_sync()
        broker.nobody()
        self.assert_granted(broker, 4)
        self.assertLess(broker.clock.seconds, 0.5)

    def test_an_active_broker_does_not_take_silence_for_absence(self) -> None:
        """A replica listens nowhere: whoever takes the connection has begun to seek, and may be active and reading its journal."""
        broker = self.active()
        broker.silence()
        self.assertEqual((broker.told, broker.seeker.state), ([], "waiting to ask again"))
        broker.clock.advance(1.6)
        broker.reply(replace(THEIRS, activity=Activity.ACTIVE, sequence=5, search=""))
        self.assertEqual(broker.told, ["end clients", ("refused", "other")])

    def test_a_replica_takes_over_from_an_active_broker_that_stands_still(self) -> None:
        broker = self.in_sync()
        broker.silence()
        self.assert_granted(broker, 4)

    def test_somebody_who_refuses_to_be_asked_is_there(self) -> None:
        for broker in (self.in_sync(), self.active()):
            broker.asked.pop()[3].errback(RefusedError("the password is wrong"))
            self.assertEqual((broker.told, broker.seeker.state), ([], "waiting to ask again"))

    def test_one_that_has_stood_still_itself_asks_again(self) -> None:
        """Its clock says that the time is over, and the answer has come and was not read."""
        for broker in (self.in_sync(), self.active()):
            broker.clock.seconds += 60
            broker.clock.advance(0)
            broker.clock.advance(READ_SECONDS)
            self.assertLessEqual(set(broker.told), {"end clients"})
            broker.asked.clear()
            broker.clock.advance(AGAIN_SECONDS)
            broker.reply(replace(THEIRS, activity=Activity.ACTIVE, sequence=9, search=""))
            self.assertEqual(broker.told[-1], ("refused", "other"))

    def test_an_active_broker_that_has_stood_still_does_not_count_a_place_as_empty_that_may_have_opened_meanwhile(self) -> None:
        """The replica that has opened it just after the question takes over when it has heard nothing for two seconds."""
        broker = self.active()
        broker.clock.advance(0.9)
        broker.reply(None)
        broker.clock.advance(AGAIN_SECONDS)
        [(_, _, _, answer)] = broker.asked
        broker.clock.seconds += 2.1
        answer.errback(UnreachableError("nobody listened"))
        self.assertEqual(broker.told, [])
        broker.asked.clear()
        broker.clock.advance(AGAIN_SECONDS)
        broker.reply(replace(THEIRS, activity=Activity.ACTIVE, sequence=9, search=""))
        self.assertEqual(broker.told[-1], ("refused", "other"))

    def test_an_active_broker_goes_on_when_nobody_is_there(self) -> None:
        broker = self.active()
        self.assertFalse(broker.seeker.alone)
        broker.nobody()
        self.assert_granted(broker, 5)

    def test_a_start_waits(self) -> None:
        broker = self.started()
        broker.reply(None)
        broker.clock.advance(0.1)
        self.assertEqual((broker.told, broker.seeker.state), ([], "waiting to ask again"))

    def test_nobody_goes_on_while_somebody_seeks_at_that_place(self) -> None:
        broker = self.active()
        broker.reply(replace(THEIRS, copy_id="third", sequence=1, noted="fourth"))
        self.assertEqual((broker.told, broker.seeker.state), ([], "waiting to ask again"))

    def test_who_was_refused_has_to_meet_the_other_one(self) -> None:
        broker = self.in_sync()
        broker.reply(replace(THEIRS, activity=Activity.ACTIVE, search=""))
        broker.seeker.seek(Purpose.TAKE_OVER)
        broker.reply(None)
        self.assertEqual(broker.told, [("refused", "other"), "begin seeking"])
        self.assertEqual(broker.seeker.state, "waiting to ask again")


class VotersTests(SeekingCase):
    def test_the_voters_give_the_next_sequence(self) -> None:
        for broker in (self.started("v0", "v1", "v2"), self.in_sync("v0", "v1", "v2")):
            broker.silent = {"v1"}
            broker.reply(None)
            self.assert_granted(broker, 4)

    def test_the_log_tells_a_takeover_with_the_code_of_artemis(self) -> None:
        for broker, takes_over in ((self.started("v0"), False), (self.in_sync("v0"), True)):
            with capturedLogs() as events:
                broker.reply(None)
            (line,) = (text for text in map(formatEvent, events) if "may be active" in text)
            self.assertEqual(line.startswith("AMQ221037: this broker may be active at sequence 4"), takes_over)

    def test_the_log_tells_why_a_copy_stays_or_becomes_passive_with_the_code_of_artemis(self) -> None:
        for broker, code in ((self.started("v0"), ""), (self.in_sync("v0"), "AMQ221070: "), (self.active("v0"), "AMQ224098: ")):
            with capturedLogs() as events:
                broker.reply(replace(THEIRS, activity=Activity.ACTIVE, sequence=6, search=""))
            (line,) = (text for text in map(formatEvent, events) if "is passive" in text)
            self.assertTrue(line.startswith(f"{code}this broker is passive: the copy other, which is active"), line)

    def test_without_a_majority_it_asks_again(self) -> None:
        broker = self.in_sync("v0", "v1", "v2")
        broker.silent = {"v1", "v2"}
        broker.reply(None)
        self.assertEqual((broker.told, broker.seeker.state), ([], "waiting to ask again"))
        broker.silent.clear()
        broker.clock.advance(1.6)
        broker.reply(None)
        self.assert_granted(broker, 4)

    def test_who_comes_second_is_refused(self) -> None:
        first = self.in_sync("v0", "v1")
        first.reply(None)
        second = Broker(CopyRecord("late", CopyState.COMPLETE, 3, OTHER), ("v0", "v1"), ProofRules(primary=True))
        second.voters = first.voters
        second.seeker.seek(Purpose.START)
        second.reply(None)
        self.assertEqual(second.told, ["begin seeking", ("refused", None)])

    def test_a_quorum_size_asks_for_more(self) -> None:
        broker = self.started("v0", "v1", "v2", rules=ProofRules(True, quorum_size=4))
        broker.silent = {"v1"}
        broker.reply(None)
        self.assertEqual(broker.told, [])

    def test_a_backup_that_starts_does_not_ask_them(self) -> None:
        broker = self.started("v0", rules=ProofRules(primary=False))
        broker.reply(None)
        self.assertEqual((broker.told, broker.seeker.state), ([], "waiting to ask again"))


class WrittenTests(SeekingCase):
    def test_check_for_active_server_false_asks_nobody(self) -> None:
        broker = self.started("v0", rules=ProofRules(True, check_for_active_server=False))
        broker.writer.run()
        self.assert_granted(broker, 4)

    def test_vote_on_replication_failure_false_asks_nobody(self) -> None:
        broker = self.active("v0", rules=ProofRules(True, vote_on_replication_failure=False))
        broker.writer.run()
        self.assert_granted(broker, 5)

    def test_they_are_about_nothing_else(self) -> None:
        for broker in (
            self.started(rules=ProofRules(True, vote_on_replication_failure=False)),
            self.started(rules=ProofRules(False, check_for_active_server=False)),
            self.active(rules=ProofRules(True, check_for_active_server=False)),
        ):
            broker.writer.run()
            self.assertEqual((broker.told, len(broker.asked)), ([], 1))


class ActiveTests(SeekingCase):
    def test_after_five_seconds_without_proof_its_connections_end_and_it_seeks_on(self) -> None:
        broker = self.active("v0")
        broker.silent = {"v0"}
        broker.reply(None)
        self.assertEqual(broker.seeker.standing.activity, Activity.ACTIVE)
        broker.clock.advance(4.9)
        self.assertEqual(broker.told, [])
        broker.clock.advance(0.2)
        self.assertEqual((broker.told, broker.seeker.standing.activity), (["end clients"], Activity.SEEKING))
        broker.silent.clear()
        while broker.told == ["end clients"]:
            if broker.asked:
                broker.reply(None)
            broker.clock.advance(0.5)
        self.assertEqual(broker.told[1:], [("granted", 5)])

    def test_one_that_is_refused_ends_its_clients_first(self) -> None:
        broker = self.active()
        broker.reply(replace(THEIRS, activity=Activity.ACTIVE, sequence=5, search=""))
        self.assertEqual(broker.told, ["end clients", ("refused", "other")])

    def test_a_copy_is_noted_only_with_the_proof_and_ends_being_alone_at_once(self) -> None:
        broker = self.broker(other=None)
        self.failureResultOf(broker.seeker.note(OTHER), CopyStateError)
        broker.seeker.seek(Purpose.START)
        broker.writer.run()
        noted = broker.seeker.note(OTHER)
        self.assertEqual((broker.seeker.alone, broker.record.shared), (False, False))
        broker.writer.run()
        self.successResultOf(noted)
        self.assertTrue(broker.record.shared)
        self.failureResultOf(broker.seeker.note(OTHER), CopyStateError)
        self.failureResultOf(broker.seeker.begin_copy(OTHER), CopyStateError)

    def test_it_hands_over_when_it_has_ceased(self) -> None:
        broker = self.active()
        broker.nobody()
        broker.seeker.note(OTHER)
        broker.writer.run()
        takes_over = replace(THEIRS, sequence=5)
        self.assertEqual(self.answer_of(broker, takes_over).activity, Activity.ACTIVE)
        broker.seeker.cease()
        answer = self.answer_of(broker, takes_over)
        self.assertTrue(answer.gives_word_to(takes_over))
        self.assertIs(broker.record.state, CopyState.GIVEN_UP)

    def test_of_two_that_were_cut_the_higher_sequence_goes_on_and_the_other_keeps_its_data(self) -> None:
        broker = self.active()
        broker.nobody()
        broker.told.clear()
        other = replace(THEIRS, activity=Activity.ACTIVE, sequence=6, noted="", search="")
        self.assertIs(self.answer_of(broker, replace(other, sequence=4)).activity, Activity.ACTIVE)
        visited = broker.seeker.visit(OTHER.connector)
        with capturedLogs() as events:
            broker.reply(other)
        self.assertIn("oldreplica.n", str(formatEvent(events[0])))
        self.assertEqual((broker.told, broker.record.diverged), (["end clients", ("refused", "other")], True))
        broker.reply(other)
        self.successResultOf(visited)


class PassiveTests(SeekingCase):
    def test_a_replica_that_is_asked_to_leaves_its_active_broker_first(self) -> None:
        broker = self.broker(rules=ProofRules(primary=False))
        answer = broker.question(replace(THEIRS, activity=Activity.ACTIVE, primary=True))
        self.assertEqual((broker.told, broker.record.complete), (["stop copying"], True))
        self.assertNoResult(answer)
        broker.writer.run()
        self.assertTrue(Standing.decode(self.successResultOf(answer)).gives_word_to(THEIRS))
        self.assertEqual(broker.told, ["stop copying"])

    def test_a_replica_stays_one_when_its_active_broker_looks_who_is_there(self) -> None:
        broker = self.broker(rules=ProofRules(primary=False))
        self.answer_of(broker, replace(THEIRS, activity=Activity.ACTIVE, primary=True, search=""))
        self.assertEqual((broker.told, broker.record.complete), ([], True))

    def test_what_is_said_of_a_copy_that_begins_is_durable_first(self) -> None:
        broker = self.broker()
        broker.seeker.begin_copy(OTHER)
        answers = [broker.question(replace(THEIRS, noted=noted)) for noted in ("own", "third")]
        for answer in answers:
            self.assertNoResult(answer)
        broker.writer.run()
        self.assertIs(Standing.decode(self.successResultOf(answers[0])).state, CopyState.INCOMPLETE)
        self.successResultOf(answers[1])

    def test_another_node_changes_nothing(self) -> None:
        broker = self.broker(rules=ProofRules(primary=False))
        self.assertTrue(self.answer_of(broker, replace(THEIRS, node_id="elsewhere", primary=True)).complete)

    def test_a_visit_gives_the_word_to_a_copy_that_seeks(self) -> None:
        broker = self.broker(rules=ProofRules(primary=False))
        visited = broker.seeker.visit(OTHER.connector)
        broker.reply(replace(THEIRS, primary=True))
        self.assertNoResult(visited)
        word = broker.reply(replace(THEIRS, primary=True, activity=Activity.ACTIVE, sequence=4))
        self.assertEqual((word.state, word.word_for), (CopyState.GIVEN_UP, "s2"))
        self.assertEqual(self.successResultOf(visited).sequence, 4)

    def test_a_visit_to_nobody_fails(self) -> None:
        broker = self.broker()
        visited = broker.seeker.visit(OTHER.connector)
        broker.clock.advance(2.1)
        self.failureResultOf(visited, UnreachableError)

    def test_garbage_is_refused(self) -> None:
        self.assertRaises(MalformedPacketError, self.broker().seeker.answer, b"x")

    def test_everything_can_cease(self) -> None:
        for broker in (self.started("v0"), self.in_sync(), self.active()):
            broker.seeker.cease()
            broker.writer.run()
            broker.clock.advance(10)
            self.assertEqual((broker.seeker.state, broker.told, broker.clock.pending), ("passive", [], 0))
        broker = self.started(rules=ProofRules(primary=False))
        broker.asked.pop()[3].callback(replace(THEIRS, primary=True).encode())
        broker.seeker.cease()
        self.assertEqual((broker.seeker.state, broker.clock.pending), ("passive", 0))
        broker = self.broker(rules=ProofRules(primary=False))
        answer = broker.question(replace(THEIRS, primary=True))
        broker.seeker.cease()
        broker.writer.run()
        self.assertTrue(Standing.decode(self.successResultOf(answer)).gives_word_to(THEIRS))
