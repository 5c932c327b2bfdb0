"""Commits with ``exactly_once``: each returns, or raises that the work is undone."""

from __future__ import annotations

import io
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

from twisted.internet.defer import Deferred

from mqclient.core.once.ids import COMMITS_ADDRESS
from mqclient.core.session.transactions import run_transaction
from mqclient.errors import (
    AddressFullError,
    DuplicateIdRejectedError,
    ExactlyOnceError,
    IdCacheError,
    IllegalStateError,
    LargeMessageInterruptedError,
    LargeMessageTakenBackError,
    MQError,
    NodeLostError,
    ObjectClosedError,
    SecurityError,
    TransactionRolledBackError,
)
from mqclient.wire.message import KEY_DUPLICATE_ID, decode_headers, decode_message
from mqclient.wire.packets import (
    ClusterTopologyV4,
    Commit,
    CreateQueueV2,
    CreateSessionV2,
    ExceptionResponse,
    IdCacheQuery,
    IdCacheState,
    NullResponse,
    ProducerCredits,
    ProducerFailCredits,
    QueueQuery,
    ReattachSessionResponse,
    Rollback,
    SessionReceive,
    SessionSend,
    SessionSendContinuation,
    SessionSendLarge,
    SessionStop,
)
from mqclient.wire.properties import STRING
from tests.support.network import NODE_ID, connector, message, pending
from tests.unit.mqclient.core.once.broker import OnceTestCase, RememberingBroker


class CommitTestCase(OnceTestCase):
    def start(self, **settings: Any) -> None:  # type: ignore[override]
        super().start(transacted=True, **settings)

    def sends(self, *bodies: bytes) -> None:
        for body in bodies:
            self.world.finish(self.send(body))

    def received(self) -> SessionReceive:
        return message(7)

    def receive(self) -> None:
        self.consumer = self.world.finish(self.session.create_consumer("q"))
        self.world.finish(self.session.start())
        self.deliver()

    def deliver(self) -> None:
        self.broker.deliver(self.session.channel_id, self.received())
        received = self.world.finish(self.consumer.receive_immediate())
        self.world.finish(self.consumer.acknowledge(received))

    def commit(self) -> Any:
        commit = self.session.commit()
        self.world.advance(5)
        return self.world.finish(commit)


class SendingTests(CommitTestCase):
    def test_a_commit_leaves_its_id(self) -> None:
        self.start()
        self.sends(b"one", b"two")
        self.commit()
        self.assertEqual(self.broker.bodies(), [b"one", b"two"])
        self.assertEqual(len([key for key in self.broker.ids if key[0] == COMMITS_ADDRESS]), 1)
        self.sends(b"three")
        self.commit()
        self.assertEqual(self.broker.bodies(), [b"one", b"two", b"three"])

    def test_each_send_has_an_id_that_its_repetition_keeps(self) -> None:
        self.start(min_large_message_size=1000)
        message = self.session.create_message()
        ids: list[list[object]] = []
        for _ in range(2):
            for given in (None, (STRING, "mine"), (STRING, "mqclient-of another")):
                for message.body in (b"", b"x" * 3000):
                    message.properties = {} if given is None else {KEY_DUPLICATE_ID: given}
                    self.world.finish(self.producer.send(message))
                    self.assertEqual(message.properties.get(KEY_DUPLICATE_ID), given)
            regular = [packet.message for packet in self.broker.got(SessionSend)]
            large = [packet.headers for packet in self.broker.got(SessionSendLarge)]
            for data in (*regular, *large):
                self.assertEqual(data.count(KEY_DUPLICATE_ID.encode("utf-16-le")), 1)
            ids.append([each.get(KEY_DUPLICATE_ID) for each in (*map(decode_message, regular), *map(decode_headers, large))])
            self.cut()
            self.commit()
            self.broker.ids.clear()
            self.assertCountEqual([each.get(KEY_DUPLICATE_ID) for each in self.broker.stored], ids[-1])
            self.broker.stored.clear()
            self.broker.received_packets.clear()
        for found in ids:
            self.assertEqual(found.count("mine"), 2)
            self.assertEqual((len(set(found)), "mqclient-of another" in found), (5, False))
        self.assertEqual(set(ids[0]) & set(ids[1]), {"mine"})

    def test_a_send_that_has_failed_is_not_repeated(self) -> None:
        self.start(producer_window_size=10)
        self.sends(b"one")
        self.broker.credits = False
        send = self.send(b"two")
        self.world.network.stir()
        self.broker.deliver(self.session.channel_id, ProducerFailCredits(1000, "a"))
        self.failure(AddressFullError, send)
        self.broker.credits = True
        self.sends(b"three")
        self.cut()
        self.commit()
        self.assertEqual(self.broker.bodies(), [b"one", b"three"])

    def test_one_that_equals_an_earlier_one_leaves_that_in_its_place(self) -> None:
        self.start(producer_window_size=10)
        same = self.session.create_message()
        same.body = b"same"
        same.properties[KEY_DUPLICATE_ID] = (STRING, "mine")
        self.world.finish(self.producer.send(same))
        self.sends(b"other")
        self.broker.credits = False
        send = self.producer.send(same)
        self.world.network.stir()
        self.broker.deliver(self.session.channel_id, ProducerFailCredits(1000, "a"))
        self.failure(AddressFullError, send)
        self.broker.credits = True
        self.cut()
        self.commit()
        self.assertEqual(self.broker.bodies(), [b"same", b"other"])

    def test_one_that_equals_an_earlier_one_and_was_refused_before_it_was_held_leaves_that(self) -> None:
        self.start()
        self.broker.cache = IdCacheState(1, True)
        same = self.session.create_message()
        same.body = b"same"
        same.properties[KEY_DUPLICATE_ID] = (STRING, "mine")
        self.world.finish(self.producer.send(same))
        self.failure(IdCacheError, self.producer.send(same))
        self.cut()
        self.commit()
        self.assertEqual(self.broker.bodies(), [b"same"])

    def test_a_send_that_was_rolled_back_leaves_an_equal_one_of_the_next_transaction(self) -> None:
        for handler in (None, SimpleNamespace(send_acknowledged=lambda message: None, send_failed=lambda message, error: None)):
            self.start()
            self.sends(b"one")
            same = self.session.create_message()
            same.body = b"same"
            same.properties[KEY_DUPLICATE_ID] = (STRING, "mine")
            self.session.link_paused()
            dropped = self.producer.send(same, acknowledgement_handler=handler)
            self.world.finish(self.session.rollback())
            again = self.producer.send(same, acknowledgement_handler=handler)
            self.session.link_resumed()
            self.failure(TransactionRolledBackError, dropped)
            self.world.finish(again)
            self.cut()
            self.commit()
            self.assertEqual(self.broker.bodies(), [b"same"])

    def test_a_send_that_was_rolled_back_counts_for_no_later_transaction(self) -> None:
        for handler in (None, SimpleNamespace(send_acknowledged=lambda message: None, send_failed=lambda message, error: None)):
            self.start(producer_max_rate=1)
            self.broker.cache = IdCacheState(1, True)
            self.sends(b"one")
            message = self.session.create_message()
            dropped = self.producer.send(message, acknowledgement_handler=handler)
            self.world.finish(self.session.rollback())
            self.world.advance(1)
            self.failure(TransactionRolledBackError, dropped)
            self.world.advance(1)
            self.sends(b"two")
            self.commit()
            self.assertEqual(self.broker.bodies(), [b"two"])

    def test_a_send_with_a_handler_is_told_and_repeated(self) -> None:
        self.start()
        told: list[bytes] = []
        handler = SimpleNamespace(send_acknowledged=lambda message: told.append(message.body), send_failed=lambda message, error: None)
        message = self.session.create_message()
        message.body = b"one"
        self.world.finish(self.producer.send(message, acknowledgement_handler=handler))
        self.assertEqual(told, [b"one"])
        self.cut()
        self.commit()
        self.assertEqual(self.broker.bodies(), [b"one"])

    def test_another_broker_is_asked_before_the_next_send(self) -> None:
        self.start()
        self.sends(b"one")
        self.cut()
        self.broker.cache = IdCacheState(0, True)
        self.failure(IdCacheError, self.send(b"two"))

    def test_a_node_that_cannot_be_told_any_more_is_an_error_before_the_send(self) -> None:
        """Also when the session was reattached."""
        self.start()
        self.sends(b"one")
        self.commit()
        places = [connector(7001), connector(7002)]
        self.broker.topology = [
            ClusterTopologyV4(False, NODE_ID, 1, places[0], server_version=136),
            ClusterTopologyV4(False, "another", 1, places[1], last=True, server_version=136),
        ]
        self.broker.reattaches = ReattachSessionResponse(1000, True)
        incarnation = self.session.channel.incarnation
        self.cut()
        self.assertIn("which node", str(self.failure(ExactlyOnceError, self.send(b"two"))))
        self.assertEqual(self.session.channel.incarnation, incarnation)

    def test_a_failure_before_the_commit_repeats_the_whole(self) -> None:
        self.start()
        self.sends(b"one", b"two")
        self.cut()
        self.sends(b"three")
        self.commit()
        self.assertEqual(self.broker.bodies(), [b"one", b"two", b"three"])

    def test_a_commit_whose_answer_is_lost_has_happened_once(self) -> None:
        self.start()
        self.sends(b"one", b"two")
        self.broker.lost_answers.append(Commit)
        self.commit()
        self.assertEqual(self.broker.bodies(), [b"one", b"two"])

    def test_a_commit_that_is_lost_is_repeated(self) -> None:
        self.start()
        self.sends(b"one", b"two")
        self.broker.lost_requests.append(Commit)
        self.commit()
        self.assertEqual(self.broker.bodies(), [b"one", b"two"])

    def test_claims_may_be_lost_too(self) -> None:
        for packets in ([Commit] * 2, [Commit] * 3, [Commit, Rollback], [Commit, SessionSend, Commit]):
            for kind in ("lost_answers", "lost_requests"):
                for other in ("lost_answers", "lost_requests"):
                    self.start()
                    self.sends(b"one", b"two")
                    getattr(self.broker, kind).append(packets[0])
                    commit = self.session.commit()
                    self.world.network.stir()
                    getattr(self.broker, other).extend(packets[1:])
                    self.world.advance(10)
                    self.world.finish(commit)
                    self.assertEqual(self.broker.bodies(), [b"one", b"two"])
                    self.tearDown()
        self.start()

    def test_a_commit_that_gets_no_answer(self) -> None:
        self.start(call_timeout=2000)
        self.sends(b"one")
        self.broker.silent.add(Commit)
        commit = self.session.commit()
        self.world.advance(1.9)
        self.broker.silent.clear()
        self.world.advance(5)
        self.world.finish(commit)
        self.assertEqual(self.broker.bodies(), [b"one"])

    def test_one_that_is_cancelled_while_it_undoes_or_repeats_leaves_the_whole_to_the_next(self) -> None:
        """The caller that calls again must neither be told of success for nothing, nor for a part."""
        for silent, credits in ((Rollback, True), (None, False)):
            self.start(producer_window_size=250)
            self.sends(b"one", b"two")
            self.broker.silent |= {silent} if silent else set()
            self.broker.credits = credits
            self.cut()
            commit: Any = self.session.commit()
            commit.addErrback(lambda _: None)
            self.world.advance(5)
            self.assertTrue(pending(commit))
            commit.cancel()
            self.broker.silent.clear()
            self.broker.credits = True
            owed = NullResponse() if silent is not None else ProducerCredits(10_000, "a")
            self.broker.deliver(self.session.channel_id, owed)
            self.sends(b"three")
            self.commit()
            self.assertEqual(self.broker.bodies(), [b"one", b"two", b"three"])

    def test_a_commit_waits_for_its_broker(self) -> None:
        self.start()
        self.sends(b"one")
        self.broker.lost_answers.append(Commit)
        commit = self.session.commit()
        self.world.network.brokers.clear()
        self.world.advance(300, step=1)
        self.assertTrue(pending(commit))
        self.back()
        self.world.advance(5)
        self.world.finish(commit)
        self.assertEqual(self.broker.bodies(), [b"one"])

    def test_a_node_that_is_given_up_is_a_typed_error(self) -> None:
        self.start(reconnect_attempts=2)
        self.sends(b"one")
        self.broker.lost_answers.append(Commit)
        commit = self.session.commit()
        self.world.network.brokers.clear()
        self.world.advance(5)
        self.failure(NodeLostError, commit)

    def test_another_node_is_not_asked(self) -> None:
        self.start(reconnect_attempts=2)
        self.sends(b"one")
        self.broker.lost_answers.append(Commit)
        other = RememberingBroker()
        other.topology = [ClusterTopologyV4(False, "another", 1, last=True, server_version=136)]
        self.world.network.brokers["61616"] = other
        commit = self.session.commit()
        self.world.advance(5)
        self.assertIn("this is node another", str(self.failure(NodeLostError, commit)))
        self.assertEqual(other.ids, set())

    def test_a_backup_that_keeps_no_ids_is_not_believed(self) -> None:
        self.start()
        self.sends(b"one")
        self.broker.lost_answers.append(Commit)
        commit = self.session.commit()
        self.world.network.brokers.clear()
        self.world.network.stir()
        self.broker.cache = IdCacheState(0, True)
        self.back()
        self.world.advance(5)
        self.assertIn("mqclient-", str(self.failure(IdCacheError, commit)))
        self.assertEqual(self.broker.bodies(), [b"one"])
        self.broker.cache = IdCacheState(100, True)
        self.sends(b"two")
        self.commit()
        self.assertEqual(self.broker.bodies(), [b"one", b"two"])

    def test_large_messages_are_repeated(self) -> None:
        self.start(min_large_message_size=1000)
        self.sends(b"x" * 3000)
        self.world.finish(self.send(b"", body_source=io.BytesIO(b"y" * 3000)))
        self.cut()
        self.commit()
        self.assertEqual(self.broker.bodies(), [b"x" * 3000, b"y" * 3000])

    def test_a_large_message_that_is_cut_off_is_repeated(self) -> None:
        self.start(min_large_message_size=1000)
        self.broker.lost_requests.append(SessionSendContinuation)
        self.sends(b"x" * 3000, b"y")
        self.commit()
        self.assertEqual(self.broker.bodies(), [b"x" * 3000, b"y"])

    def test_a_file_that_is_closed_before_the_commit_means_rolled_back(self) -> None:
        self.start(min_large_message_size=1000)
        file = io.BytesIO(b"y" * 3000)
        self.world.finish(self.send(b"", body_source=file))
        file.close()
        self.cut()
        self.failure(TransactionRolledBackError, self.session.commit())
        self.assertEqual(self.broker.stored, [])
        self.sends(b"next")
        self.commit()
        self.assertEqual(self.broker.bodies(), [b"next"])

    def test_more_than_the_bound_is_rolled_back_by_a_failure(self) -> None:
        self.start(exactly_once_window_size=1000)
        self.sends(b"x" * 600, b"y" * 600)
        self.cut()
        self.failure(TransactionRolledBackError, self.session.commit())
        self.sends(b"next")
        self.cut()
        self.commit()
        self.assertEqual(self.broker.bodies(), [b"next"])

    def test_more_ids_than_are_kept_are_an_error_before_the_send(self) -> None:
        self.start()
        self.broker.cache = IdCacheState(2, True)
        self.sends(b"one", b"two")
        self.failure(IdCacheError, self.send(b"three"))
        self.commit()
        self.assertEqual(self.broker.bodies(), [b"one", b"two"])

    def test_a_rollback_forgets_what_is_held(self) -> None:
        self.start()
        self.sends(b"one")
        self.world.finish(self.session.rollback())
        self.sends(b"two")
        self.cut()
        self.commit()
        self.assertEqual(self.broker.bodies(), [b"two"])

    def test_a_rollback_lasts_over_a_failure(self) -> None:
        for kind in ("lost_answers", "lost_requests"):
            for packet in (SessionStop, Rollback):
                self.start()
                self.receive()
                self.sends(b"one")
                getattr(self.broker, kind).append(packet)
                rollback = self.session.rollback()
                self.world.advance(5)
                self.world.finish(rollback)
                self.sends(b"two")
                self.commit()
                self.assertEqual((self.broker.bodies(), self.broker.acknowledged), ([b"two"], []))
                self.tearDown()
        self.start()

    def test_a_rollback_in_a_session_that_ends_says_so(self) -> None:
        self.start(reconnect_attempts=2)
        self.sends(b"one")
        self.broker.silent.add(Rollback)
        rollback = self.session.rollback()
        self.world.network.stir()
        self.away()
        self.world.advance(5)
        self.failure(MQError, rollback)
        self.assertTrue(self.session.closed)

    def test_a_producer_may_be_closed_before_the_commit(self) -> None:
        self.start()
        self.sends(b"one")
        self.world.finish(self.producer.close())
        self.cut()
        self.commit()
        self.assertEqual(self.broker.bodies(), [b"one"])

    def test_the_refusal_of_the_broker_is_raised_and_not_repeated(self) -> None:
        self.start()
        self.broker.refused["a"] = 105
        self.sends(b"one")
        self.failure(SecurityError, self.session.commit())
        self.broker.refused.clear()
        self.sends(b"two")
        self.commit()
        self.assertEqual(self.broker.bodies(), [b"two"])

    def test_so_is_a_known_id_of_the_application(self) -> None:
        self.start()
        for error in (None, DuplicateIdRejectedError):
            self.world.finish(self.send(b"one", properties={KEY_DUPLICATE_ID: (STRING, "mine")}))
            if error is None:
                self.commit()
            else:
                self.failure(error, self.session.commit())
        self.assertEqual(self.broker.bodies(), [b"one"])

    def test_an_address_that_is_full_at_the_repetition_means_rolled_back(self) -> None:
        self.start(producer_window_size=10)
        self.sends(b"x" * 100)
        self.broker.credits = False
        self.cut()
        commit = self.session.commit()
        self.world.network.stir()
        self.assertTrue(pending(commit))
        self.broker.deliver(self.session.channel_id, ProducerFailCredits(1000, "a"))
        error = self.failure(TransactionRolledBackError, commit)
        self.assertIsInstance(error.__cause__, AddressFullError)

    def test_a_commit_without_work_sends_nothing(self) -> None:
        self.start()
        self.commit()
        self.assertEqual(self.broker.got(Commit), [])

    def test_a_queue_that_cannot_be_made_is_an_error_before_the_commit(self) -> None:
        self.start()
        self.broker.queue_info = {"exists": False}
        self.broker.answers[CreateQueueV2] = lambda _: ExceptionResponse(105, "not allowed")
        self.sends(b"one")
        self.assertIn(COMMITS_ADDRESS, str(self.failure(ExactlyOnceError, self.session.commit())))
        self.world.finish(self.session.rollback())
        self.assertEqual(self.broker.stored, [])

    def queue_refused(self, code: int = 104, text: str = "the database is away") -> None:
        self.broker.queue_info = {"exists": False}
        self.broker.answers[CreateQueueV2] = lambda _: ExceptionResponse(code, text)

    def test_a_queue_that_cannot_be_made_just_now_is_waited_for(self) -> None:
        self.start()
        self.queue_refused()
        self.sends(b"one", b"two")
        commit = self.session.commit()
        self.world.advance(20)
        self.assertTrue(pending(commit))
        self.assertEqual(self.broker.got(Commit), [])
        self.broker.answers.clear()
        self.world.advance(1)
        self.world.finish(commit)
        self.assertEqual(self.broker.bodies(), [b"one", b"two"])

    def test_one_that_cannot_be_made_for_longer_means_rolled_back(self) -> None:
        self.start(call_timeout=5000)
        self.queue_refused()
        self.sends(b"one")
        commit = self.session.commit()
        self.world.advance(6)
        self.assertIn("the database is away", str(self.failure(TransactionRolledBackError, commit)))
        self.broker.answers.clear()
        self.sends(b"two")
        self.commit()
        self.assertEqual(self.broker.bodies(), [b"two"])

    def test_a_broker_that_does_not_say_now_how_many_ids_it_keeps_means_the_same(self) -> None:
        self.start(call_timeout=5000)
        self.sends(b"one")
        self.broker.answers[IdCacheQuery] = lambda _: ExceptionResponse(223, "no answer")
        commit = self.session.commit()
        self.world.advance(3)
        self.assertTrue(pending(commit))
        self.world.advance(3)
        self.failure(TransactionRolledBackError, commit)

    def in_doubt(self) -> Any:
        """A commit that has happened and whose answer is lost, while the broker is away."""
        self.sends(b"one")
        self.broker.lost_answers.append(Commit)
        commit = self.session.commit()
        self.world.network.brokers.clear()
        self.world.network.stir()
        return commit

    def test_where_the_id_of_a_commit_is_forgotten_those_of_its_messages_keep_them_from_being_doubled(self) -> None:
        self.start()
        commit = self.in_doubt()
        self.broker.ids = {key for key in self.broker.ids if key[0] != COMMITS_ADDRESS}
        self.back()
        self.world.advance(5)
        self.failure(DuplicateIdRejectedError, commit)
        self.assertEqual(self.broker.bodies(), [b"one"])

    def test_a_commit_in_doubt_waits_until_the_queue_can_be_made(self) -> None:
        self.start(call_timeout=5000)
        commit = self.in_doubt()
        self.queue_refused()
        self.back()
        self.world.advance(100, step=0.25)
        self.assertTrue(pending(commit))
        self.broker.answers.clear()
        self.world.advance(1)
        self.world.finish(commit)
        self.assertEqual(self.broker.bodies(), [b"one"])

    def refused_for_good(self, refuse: Callable[[], object]) -> None:
        """A commit in doubt is not known for ever, once the connection could be used for the time of a call."""
        self.start(call_timeout=5000)
        commit = self.in_doubt()
        refuse()
        self.world.advance(20)
        self.back()
        self.world.advance(4)
        self.assertTrue(pending(commit))
        self.world.advance(3)
        self.assertIn("whether the commit with the duplicate id", str(self.failure(ExactlyOnceError, commit)))
        self.broker.answers.clear()
        self.broker.refused.clear()
        self.sends(b"two")
        self.commit()
        self.assertEqual(self.broker.bodies(), [b"one", b"two"])

    def test_a_missing_permission_is_an_answer(self) -> None:
        """As at a backup with other security settings."""
        self.refused_for_good(partial(self.queue_refused, 105))

    def test_so_is_one_to_send_the_claim(self) -> None:
        self.refused_for_good(lambda: self.broker.refused.update({COMMITS_ADDRESS: 105}))

    def test_a_permission_that_is_given_in_time_is_used(self) -> None:
        self.start(call_timeout=5000)
        commit = self.in_doubt()
        self.queue_refused(105)
        self.back()
        self.world.advance(4)
        self.broker.answers.clear()
        self.world.advance(1)
        self.world.finish(commit)
        self.assertEqual(self.broker.bodies(), [b"one"])

    def test_a_refusal_with_a_code_is_one_for_good(self) -> None:
        self.start(call_timeout=5000)
        self.queue_refused(text="AMQ229216: a message without a validated user is refused here")
        self.sends(b"one")
        self.failure(ExactlyOnceError, self.session.commit())

    def test_it_waits_until_the_broker_says_how_many_ids_it_keeps(self) -> None:
        self.start(call_timeout=5000)
        commit = self.in_doubt()
        self.broker.answers[IdCacheQuery] = lambda _: ExceptionResponse(223, "no answer")
        self.back()
        self.world.advance(100, step=0.25)
        self.assertTrue(pending(commit))
        self.broker.answers.clear()
        self.world.advance(1)
        self.world.finish(commit)
        self.assertEqual(self.broker.bodies(), [b"one"])

    def test_it_waits_until_the_broker_takes_claims(self) -> None:
        for kind in ("lost_answers", "lost_requests"):
            self.start()
            self.sends(b"one")
            getattr(self.broker, kind).append(Commit)
            self.broker.refused[COMMITS_ADDRESS] = 210
            commit = self.session.commit()
            self.world.advance(100, step=0.25)
            self.assertTrue(pending(commit))
            self.broker.refused.clear()
            self.world.advance(5)
            self.world.finish(commit)
            self.assertEqual(self.broker.bodies(), [b"one"])
            self.tearDown()
        self.start()

    def test_a_claim_that_was_stored_although_it_was_refused_is_not_taken_for_the_commit(self) -> None:
        self.start()
        self.sends(b"one")
        self.broker.lost_requests.append(Commit)
        commits = self.broker._commit
        claims: list[Any] = []

        def refuse_the_first(session: Any, packet: Any) -> Any:
            answer = commits(session, packet)
            claims.append(packet)
            return ExceptionResponse(0, "the disk has failed", packet.correlation_id) if len(claims) == 1 else answer

        self.broker._commit = refuse_the_first  # type: ignore[method-assign]
        commit = self.session.commit()
        self.world.advance(10)
        self.world.finish(commit)
        self.assertEqual(self.broker.bodies(), [b"one"])
        self.assertGreater(len(claims), 2)

    def test_it_waits_until_the_broker_takes_another_session(self) -> None:
        self.start()
        commit = self.in_doubt()
        others: list[Any] = []

        def refuse_others(request: Any) -> Any:
            if request.session_channel_id == self.session.channel_id:
                return self.broker._answers(request)[0]
            others.append(request)
            return ExceptionResponse(112, "too many sessions")

        self.broker.answers[CreateSessionV2] = refuse_others
        self.back()
        self.world.advance(100, step=0.25)
        self.assertTrue(pending(commit))
        self.assertGreater(len(others), 1)
        self.broker.answers.clear()
        self.world.advance(1)
        self.world.finish(commit)
        self.assertEqual(self.broker.bodies(), [b"one"])

    def test_a_claim_is_not_forgotten_with_its_session(self) -> None:
        self.start()
        self.sends(b"one")
        self.broker.lost_requests.append(Commit)
        self.broker.lost_answers.append(Commit)  # that of the claim
        refused: list[Any] = []

        def refuse_once(request: Any) -> Any:
            if request.session_channel_id == self.session.channel_id or self.broker.lost_answers or refused:
                return self.broker._answers(request)[0]
            refused.append(request)
            return ExceptionResponse(105, "not allowed")

        self.broker.answers[CreateSessionV2] = refuse_once
        commit = self.session.commit()
        self.world.advance(5)
        self.world.finish(commit)
        self.assertEqual((len(refused), self.broker.bodies()), (1, [b"one"]))

    def test_a_commit_in_doubt_ends_with_its_session(self) -> None:
        self.start()
        commit = self.in_doubt()
        self.queue_refused()
        self.back()
        self.world.advance(5)
        self.world.finish(self.session.close())
        self.world.advance(40)
        self.failure(ObjectClosedError, commit)

    def test_what_is_begun_meanwhile_belongs_to_the_next_transaction(self) -> None:
        self.start()
        self.sends(b"one")
        self.broker.lost_requests.append(Commit)
        commit = self.session.commit()
        later = self.send(b"two")
        self.world.advance(5)
        self.world.finish(commit)
        self.world.finish(later)
        self.assertEqual(self.broker.bodies(), [b"one"])
        self.commit()
        self.assertEqual(self.broker.bodies(), [b"one", b"two"])


class ReceivingTests(CommitTestCase):
    def test_a_failure_before_the_commit_means_rolled_back(self) -> None:
        self.start()
        self.receive()
        self.sends(b"one")
        self.cut()
        self.failure(TransactionRolledBackError, self.session.commit())
        self.assertEqual((self.broker.stored, self.broker.acknowledged), ([], []))

    def test_a_commit_whose_answer_is_lost_returns(self) -> None:
        self.start()
        self.receive()
        self.sends(b"one")
        self.broker.lost_answers.append(Commit)
        self.commit()
        self.assertEqual((self.broker.bodies(), self.broker.acknowledged), ([b"one"], [7]))

    def test_a_commit_that_is_lost_is_told_as_rolled_back(self) -> None:
        self.start()
        self.receive()
        self.sends(b"one")
        self.broker.lost_requests.append(Commit)
        commit = self.session.commit()
        self.world.advance(5)
        self.failure(TransactionRolledBackError, commit)
        self.assertEqual((self.broker.stored, self.broker.acknowledged), ([], []))
        self.deliver()
        self.commit()
        self.assertEqual(self.broker.acknowledged, [7])

    def test_after_a_refusal_its_messages_come_again_before_those_that_are_buffered(self) -> None:
        self.start()
        self.receive()
        self.broker.deliver(self.session.channel_id, message(8))
        self.broker.refused["a"] = 105
        self.sends(b"one")
        before = len(self.broker.got(Rollback))
        self.failure(SecurityError, self.session.commit())
        self.assertEqual((len(self.broker.got(Rollback)) - before, self.consumer.buffered), (1, 0))
        self.broker.refused.clear()
        self.deliver()
        self.commit()
        self.assertEqual((self.broker.bodies(), self.broker.acknowledged), ([], [7]))

    def test_a_late_commit_is_refused(self) -> None:
        self.start()
        self.receive()
        self.sends(b"one")
        late: list[Any] = []
        self.broker.answers[Commit] = late.append
        commit = self.session.commit()
        self.world.network.stir()
        [(place, transaction)] = [each for each in self.broker.sessions.items() if each[1].messages]
        held = list(transaction.messages)
        self.broker.answers.clear()
        self.cut()
        self.world.advance(5)
        self.failure(TransactionRolledBackError, commit)
        transaction.messages = held
        answer = self.broker._commit(transaction, late[0])
        self.assertEqual((type(answer), self.broker.stored), (ExceptionResponse, []))
        self.assertEqual(place[1], self.session.channel_id)


class FunctionTests(CommitTestCase):
    def run_function(self, function: Any) -> Any:
        found = self.session.transaction(function)
        self.world.advance(5)
        return found

    def test_its_result_comes_after_the_commit(self) -> None:
        self.start()

        async def work(session: Any) -> str:
            await self.send(b"one")
            return "done"

        self.assertEqual(self.world.finish(self.run_function(work)), "done")
        self.assertEqual(self.broker.bodies(), [b"one"])

    def test_it_runs_again_when_received_work_is_undone(self) -> None:
        self.start()
        self.consumer = self.world.finish(self.session.create_consumer("q"))
        self.world.finish(self.session.start())
        self.broker.lost_requests.append(Commit)
        runs: list[int] = []

        async def work(session: Any) -> None:
            runs.append(1)
            received = await self.consumer.receive()
            await self.send(b"one")
            await self.consumer.acknowledge(received)

        found = self.session.transaction(work)
        self.broker.deliver(self.session.channel_id, self.received())
        self.world.advance(5)
        self.broker.deliver(self.session.channel_id, self.received())
        self.world.advance(5)
        self.world.finish(found)
        self.assertEqual((len(runs), self.broker.bodies(), self.broker.acknowledged), (2, [b"one"], [7]))

    def move_over_a_failure(self, acknowledge_first: bool) -> tuple[int, list[bytes], list[int]]:
        """Runs, what was sent, and what was acknowledged, when the connection fails right after a message was received."""
        self.start()
        self.consumer = self.world.finish(self.session.create_consumer("q"))
        self.world.finish(self.session.start())
        failed: Deferred[None] = Deferred()
        runs: list[int] = []

        async def work(session: Any) -> None:
            runs.append(1)
            received = await self.consumer.receive()
            if len(runs) == 1:
                await failed
            await self.send(b"one")
            if len(runs) == 1 and not acknowledge_first:
                received = await self.consumer.receive()
                await self.send(b"two")
            await self.consumer.acknowledge(received)

        found = self.session.transaction(work)
        self.deliver_one()
        self.cut()
        self.world.advance(5)
        self.deliver_one()
        failed.callback(None)
        self.world.advance(5)
        self.deliver_one()
        self.world.finish(found)
        return len(runs), self.broker.bodies(), self.broker.acknowledged

    def deliver_one(self) -> None:
        self.broker.deliver(self.session.channel_id, self.received())
        self.world.advance(5)

    def test_it_runs_again_when_a_message_came_before_a_failure_and_is_acknowledged_after_it(self) -> None:
        self.assertEqual(self.move_over_a_failure(True), (2, [b"one"], [7]))

    def test_so_does_one_that_acknowledges_only_what_came_again(self) -> None:
        self.assertEqual(self.move_over_a_failure(False), (2, [b"one"], [7]))

    def test_it_runs_again_when_a_failure_has_cut_off_a_body(self) -> None:
        self.start()
        errors: list[Exception] = [LargeMessageTakenBackError("the connection failed")]

        async def work(session: Any) -> None:
            if errors:
                raise errors.pop()
            await self.send(b"one")

        self.world.finish(self.run_function(work))
        self.assertEqual(self.broker.bodies(), [b"one"])
        errors.append(LargeMessageInterruptedError("the consumer was closed"))
        self.failure(LargeMessageInterruptedError, self.run_function(work))
        self.assertEqual(self.broker.bodies(), [b"one"])

    def test_its_own_error_rolls_back(self) -> None:
        self.start()

        async def work(session: Any) -> None:
            await self.send(b"one")
            raise KeyError("mine")

        self.failure(KeyError, self.run_function(work))
        self.commit()
        self.assertEqual(self.broker.stored, [])

    def test_a_refusal_is_not_repeated(self) -> None:
        self.start()
        self.broker.refused["a"] = 105

        async def work(session: Any) -> None:
            await self.send(b"one")

        self.failure(SecurityError, self.run_function(work))

    def test_it_runs_again_while_the_broker_cannot_remember_commits(self) -> None:
        self.start(call_timeout=5000)
        self.broker.queue_info = {"exists": False}
        self.broker.answers[CreateQueueV2] = lambda _: ExceptionResponse(104, "the database is away")
        runs: list[int] = []

        async def work(session: Any) -> None:
            runs.append(1)
            await self.send(b"one")

        found = self.session.transaction(work)
        self.world.advance(12)
        self.broker.answers.clear()
        self.world.advance(1)
        self.world.finish(found)
        self.assertEqual((len(runs), self.broker.bodies()), (3, [b"one"]))

    def test_what_cannot_be_committed_is_not_left_to_the_next(self) -> None:
        self.start()
        self.broker.queue_info = {"exists": False}
        self.broker.answers[CreateQueueV2] = lambda _: ExceptionResponse(105, "not allowed")

        async def work(session: Any) -> None:
            await self.send(b"one")

        self.failure(ExactlyOnceError, self.run_function(work))
        self.broker.answers.clear()
        self.commit()
        self.sends(b"two")
        self.commit()
        self.assertEqual(self.broker.bodies(), [b"two"])

    def test_failures_one_after_the_other(self) -> None:
        for sends_before in (True, False):
            self.start()
            runs: list[int] = []

            async def work(session: Any, sends_before: bool = sends_before, runs: list[int] = runs) -> None:
                runs.append(1)
                if sends_before:
                    await self.send(b"one")
                if len(runs) == 1:
                    self.broker.lost_requests += [QueueQuery, Rollback]
                    await self.session.queue_query("q")
                if not sends_before:
                    await self.send(b"one")

            self.world.finish(self.run_function(work))
            self.assertEqual((len(runs), self.broker.lost_requests, self.broker.bodies()), (2, [], [b"one"]))
            self.tearDown()
        self.start()

    def test_a_call_that_gets_no_answer_is_a_failure_too(self) -> None:
        self.start(call_timeout=2000)
        self.broker.silent.add(QueueQuery)
        runs: list[int] = []

        async def work(session: Any) -> None:
            runs.append(1)
            await self.send(b"one")
            if len(runs) == 1:
                await self.session.queue_query("q")
            self.broker.silent.clear()

        self.world.finish(self.run_function(work))
        self.assertEqual((len(runs), self.broker.bodies()), (2, [b"one"]))

    def test_a_session_that_ends_meanwhile_says_why(self) -> None:
        self.start(reconnect_attempts=2)

        async def work(session: Any) -> None:
            await self.send(b"one")
            self.away()
            self.world.clock.callLater(0, self.world.network.stir)
            await self.session.queue_query("q")

        error = self.failure(MQError, self.run_function(work))
        self.assertIsNone(error.__context__)

    def test_a_program_that_ends_in_the_middle_just_drops_it(self) -> None:
        self.start()

        async def work(session: Any) -> None:
            await Deferred[None]()

        abandoned = run_transaction(self.session, work)
        abandoned.send(None)
        abandoned.close()

    def test_a_session_without_transactions_has_none(self) -> None:
        OnceTestCase.start(self)

        async def work(session: Any) -> None: ...

        self.failure(IllegalStateError, self.session.transaction(work))
