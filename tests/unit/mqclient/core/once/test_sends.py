"""Sends that are held, and repeated after a failure."""

from __future__ import annotations

import io
from typing import Any

from mqclient.errors import BodyNotRepeatableError, IdCacheError, MQError, NodeLostError, ObjectClosedError, SecurityError
from mqclient.wire.message import KEY_DUPLICATE_ID
from mqclient.wire.packets import ClusterTopologyV4, ExceptionResponse, IdCacheQuery, IdCacheState, SessionSend, SessionSendContinuation
from mqclient.wire.properties import STRING
from tests.support.network import NODE_ID, connector, pending
from tests.unit.mqclient.core.once.broker import OnceTestCase, RememberingBroker


class Told:
    def __init__(self) -> None:
        self.acknowledged: list[Any] = []
        self.failed: list[MQError] = []

    def send_acknowledged(self, message: Any) -> None:
        self.acknowledged.append(message.body)

    def send_failed(self, message: Any, error: MQError) -> None:
        self.failed.append(error)


class SendTests(OnceTestCase):
    def test_a_send_whose_answer_is_lost_is_repeated_and_stored_once(self) -> None:
        self.start()
        self.broker.lost_answers.append(SessionSend)
        self.world.finish(self.send(b"one"))
        self.assertEqual(self.broker.bodies(), [b"one"])
        self.assertEqual(len(self.broker.got(SessionSend)), 1)

    def test_one_that_never_arrived_is_stored_too(self) -> None:
        self.start()
        self.broker.lost_requests.append(SessionSend)
        self.world.finish(self.send(b"one"))
        self.assertEqual(self.broker.bodies(), [b"one"])

    def test_sends_wait_for_the_broker_as_long_as_it_takes(self) -> None:
        self.start()
        self.away()
        send = self.send(b"one")
        self.world.advance(300, step=1)
        self.assertTrue(pending(send))
        self.back()
        self.world.finish(send)
        self.assertEqual(self.broker.bodies(), [b"one"])

    def test_many_at_once_keep_their_order(self) -> None:
        self.start()
        self.world.finish(self.send(b"first"))
        self.broker.lost_requests.append(SessionSend)
        sends = [self.send(b"%d" % number) for number in range(20)]
        self.world.network.stir()
        self.broker.lost_answers.append(SessionSend)
        sends += [self.send(b"%d" % number) for number in range(20, 30)]
        self.world.advance(2)
        for each in sends:
            self.world.finish(each)
        self.assertEqual(self.broker.bodies(), [b"first", *(b"%d" % number for number in range(30))])

    def test_the_same_message_can_be_sent_twice(self) -> None:
        self.start()
        message = self.session.create_message()
        self.world.finish(self.producer.send(message))
        self.world.finish(self.producer.send(message))
        self.assertEqual(len(self.broker.stored), 2)
        self.assertNotIn(KEY_DUPLICATE_ID, message.properties)

    def test_a_message_that_is_passed_on_gets_an_id_of_its_own(self) -> None:
        self.start()
        self.world.finish(self.send(b"one"))
        received = self.session.create_message()
        received.properties.update(self.broker.stored[0].properties)
        self.world.finish(self.producer.send(received))
        self.assertEqual(len(self.broker.stored), 2)
        self.assertEqual(received.properties, self.broker.stored[0].properties)

    def test_the_id_of_the_application_is_kept(self) -> None:
        self.start()
        for body in (b"one", b"again"):
            self.world.finish(self.send(body, properties={KEY_DUPLICATE_ID: (STRING, "mine")}))
        self.assertEqual(self.broker.bodies(), [b"one"])

    def test_a_handler_hears_of_each_send_once(self) -> None:
        self.start()
        told = Told()
        self.session.set_send_acknowledgement_handler(told)
        self.broker.lost_answers.append(SessionSend)
        for number in range(5):
            self.world.finish(self.send(b"%d" % number))
        self.world.advance(1)
        self.assertEqual(told.acknowledged, [b"0", b"1", b"2", b"3", b"4"])
        self.assertEqual((told.failed, self.broker.bodies()), ([], told.acknowledged))

    def test_a_refusal_is_told_and_not_repeated(self) -> None:
        self.start()
        self.broker.refused["a"] = 105
        self.failure(SecurityError, self.send(b"one"))
        told = Told()
        self.session.set_send_acknowledgement_handler(told)
        self.world.finish(self.send(b"two"))
        self.assertEqual([type(each) for each in told.failed], [SecurityError])
        self.assertFalse(self.session.holding)

    def test_a_broker_that_does_not_answer_loses_the_connection(self) -> None:
        self.start(call_timeout=2000)
        self.world.finish(self.send(b"zero"))
        self.broker.silent.add(SessionSend)
        send = self.send(b"one")
        self.world.advance(1.9)
        self.assertEqual(len(self.world.network.links), 1)
        self.broker.silent.clear()
        self.world.advance(2.2)
        self.world.finish(send)
        self.assertEqual(len(self.world.network.links), 2)
        self.assertEqual(self.broker.bodies(), [b"zero", b"one"])

    def test_sends_to_one_address_are_no_more_than_half_of_the_ids_kept(self) -> None:
        self.start()
        self.broker.cache = IdCacheState(10, True)
        self.world.finish(self.send(b"zero"))
        self.broker.silent.add(SessionSend)
        sends = [self.send(b"%d" % number) for number in range(8)]
        self.world.network.stir()
        self.assertEqual(len(self.broker.got(SessionSend)), 1 + 5)
        self.broker.silent.clear()
        self.cut()
        for each in sends:
            self.world.finish(each)
        self.assertEqual(len(self.broker.stored), 9)

    def test_ids_that_are_not_kept_are_an_error_before_the_send(self) -> None:
        self.start()
        for state, reason in ((IdCacheState(0, True), "id-cache-size"), (IdCacheState(10, False), "persist-id-cache")):
            self.broker.cache = state
            self.assertIn(reason, str(self.failure(IdCacheError, self.send(b"one"))))
        self.assertEqual(self.broker.stored, [])

    def test_a_backup_that_keeps_no_ids_gets_nothing_again(self) -> None:
        for state in (IdCacheState(0, True), IdCacheState(100, False)):
            self.start()
            self.world.finish(self.send(b"first"))
            self.broker.lost_answers.append(SessionSend)
            sent = self.send(b"one")
            self.world.network.brokers.clear()
            self.world.network.stir()
            self.broker.cache = state
            self.back()
            error = self.failure(IdCacheError, sent)
            self.assertIn("mqclient-", str(error))
            self.assertEqual(self.broker.bodies(), [b"first", b"one"])
            self.tearDown()
        self.start()

    def test_a_backup_that_does_not_say_yet_is_asked_again(self) -> None:
        self.start(call_timeout=5000)
        self.world.finish(self.send(b"first"))
        self.broker.lost_answers.append(SessionSend)
        sent = self.send(b"one")
        self.world.network.brokers.clear()
        self.world.network.stir()
        self.broker.answers[IdCacheQuery] = lambda _: ExceptionResponse(223, "no answer")
        self.back()
        self.world.advance(100, step=0.25)
        self.assertTrue(pending(sent))
        self.broker.answers.clear()
        self.world.advance(1)
        self.world.finish(sent)
        self.assertEqual(self.broker.bodies(), [b"first", b"one"])

    def test_nor_does_one_that_keeps_less_than_what_is_held(self) -> None:
        self.start()
        self.world.finish(self.send(b"first"))
        self.broker.silent.add(SessionSend)
        sends = [self.send(b"%d" % number) for number in range(3)]
        self.world.network.stir()
        self.broker.silent.clear()
        self.away()
        self.broker.cache = IdCacheState(2, True)
        self.back()
        for sent in sends:
            self.assertIn("it keeps 2 duplicate ids", str(self.failure(IdCacheError, sent)))
        self.assertEqual(self.broker.bodies(), [b"first"])

    def test_the_application_may_say_how_many_are_kept(self) -> None:
        self.start(exactly_once_id_cache_size=500)
        self.broker.cache = IdCacheState(0, False)
        self.world.finish(self.send(b"one"))
        self.assertEqual(self.broker.bodies(), [b"one"])

    def test_the_end_of_the_attempts_is_a_typed_error(self) -> None:
        self.start(reconnect_attempts=2)
        self.world.finish(self.send(b"zero"))
        self.broker.silent.add(SessionSend)
        told = Told()
        sends = [self.send(b"one"), self.producer.send(self.session.create_message(), acknowledgement_handler=told)]
        self.world.network.stir()
        self.away()
        self.world.advance(5)
        self.assertIn("nobody listens", str(self.failure(NodeLostError, sends[0])))
        self.assertEqual([type(each) for each in told.failed], [NodeLostError])

    def test_closing_says_closed(self) -> None:
        self.start()
        self.world.finish(self.send(b"zero"))
        self.broker.silent.add(SessionSend)
        send = self.send(b"one")
        self.world.network.stir()
        self.away()
        self.world.finish(self.session.close())
        self.failure(ObjectClosedError, send)


class NodeTests(OnceTestCase):
    def other_node(self) -> RememberingBroker:
        other = RememberingBroker()
        other._network = self.world.network
        other.topology = [ClusterTopologyV4(False, "another", 1, last=True, server_version=136)]
        self.world.network.brokers["61616"] = other
        return other

    def test_another_node_gets_nothing_of_what_is_held(self) -> None:
        self.start(reconnect_attempts=3)
        self.world.finish(self.send(b"zero"))
        self.broker.silent.add(SessionSend)
        send = self.send(b"one")
        self.world.network.stir()
        other = self.other_node()
        self.cut()
        self.world.advance(5)
        self.assertIn("this is node another", str(self.failure(NodeLostError, send)))
        self.assertEqual((other.stored, len(self.broker.stored)), ([], 1))

    def test_the_first_node_is_waited_for(self) -> None:
        self.start()
        self.world.finish(self.send(b"zero"))
        self.broker.lost_answers.append(SessionSend)
        send = self.send(b"one")
        other = self.other_node()
        self.world.advance(5)
        self.assertTrue(pending(send))
        self.back()
        self.world.finish(send)
        self.assertEqual((other.stored, self.broker.bodies()), ([], [b"zero", b"one"]))

    def test_without_anything_held_the_client_goes_on_elsewhere(self) -> None:
        self.start()
        self.world.finish(self.send(b"zero"))
        other = self.other_node()
        self.cut()
        self.world.finish(self.send(b"one"))
        self.assertEqual(other.bodies(), [b"one"])

    def test_a_node_that_cannot_be_told_is_an_error(self) -> None:
        self.start()
        places = [connector(7001), connector(7002)]
        self.broker.topology = [
            ClusterTopologyV4(False, NODE_ID, 1, places[0], server_version=136),
            ClusterTopologyV4(False, "another", 1, places[1], last=True, server_version=136),
        ]
        self.cut()
        self.assertIn("which node", str(self.failure(MQError, self.send(b"one"))))


class LargeTests(OnceTestCase):
    def test_a_backup_that_keeps_no_ids_gets_no_second_upload(self) -> None:
        self.start(min_large_message_size=1000)
        self.world.finish(self.send(b"first"))
        self.broker.lost_answers.append(SessionSendContinuation)
        sent = self.send(b"x" * 3000)
        self.world.network.brokers.clear()
        self.world.network.stir()
        self.broker.cache = IdCacheState(0, True)
        self.back()
        self.assertIn("mqclient-", str(self.failure(IdCacheError, sent)))
        self.assertEqual(self.broker.bodies(), [b"first"])

    def test_a_backup_that_does_not_say_yet_is_asked_again(self) -> None:
        self.start(min_large_message_size=1000, call_timeout=5000)
        self.world.finish(self.send(b"first"))
        self.broker.lost_answers.append(SessionSendContinuation)
        sent = self.send(b"x" * 900 + b"y" * 900)
        self.world.network.brokers.clear()
        self.world.network.stir()
        self.broker.answers[IdCacheQuery] = lambda _: ExceptionResponse(223, "no answer")
        self.back()
        self.world.advance(100, step=0.25)
        self.assertTrue(pending(sent))
        self.broker.answers.clear()
        self.world.advance(1)
        self.world.finish(sent)
        self.assertEqual(self.broker.bodies(), [b"first", b"x" * 900 + b"y" * 900])

    def test_an_upload_that_is_cut_off_begins_again(self) -> None:
        for lost in ("lost_answers", "lost_requests"):
            self.start(min_large_message_size=1000)
            getattr(self.broker, lost).append(SessionSendContinuation)
            self.world.finish(self.send(bytes(2500)))
            self.assertEqual(self.broker.bodies(), [bytes(2500)])

    def test_a_lost_last_answer_too(self) -> None:
        self.start(min_large_message_size=1000)
        self.broker.lost_answers.append(SessionSendContinuation)
        self.world.finish(self.send(b"", body_source=io.BytesIO(b"x" * 500)))
        self.assertEqual(self.broker.bodies(), [b"x" * 500])

    def test_a_file_is_read_from_where_it_stood(self) -> None:
        self.start(min_large_message_size=1000)
        file = io.BytesIO(b"head" + b"x" * 3000)
        file.read(4)
        self.broker.lost_requests.append(SessionSendContinuation)
        self.world.finish(self.send(b"", body_source=file))
        self.assertEqual(self.broker.bodies(), [b"x" * 3000])

    def test_a_body_that_can_be_read_once_is_refused_before(self) -> None:
        self.start(min_large_message_size=1000)
        self.failure(BodyNotRepeatableError, self.send(b"", body_source=iter([b"x" * 3000])))
        self.assertEqual(self.broker.got(SessionSendContinuation), [])

    def test_messages_behind_it_stay_behind_it(self) -> None:
        self.start(min_large_message_size=1000)
        self.broker.lost_answers += [SessionSend, SessionSendContinuation]
        sends = [self.send(b"one"), self.send(b"x" * 3000), self.send(b"three")]
        self.world.advance(2)
        for each in sends:
            self.world.finish(each)
        self.assertEqual(self.broker.bodies(), [b"one", b"x" * 3000, b"three"])

    def test_a_handler_hears_of_it(self) -> None:
        self.start(min_large_message_size=1000)
        told = Told()
        self.session.set_send_acknowledgement_handler(told)
        self.broker.lost_answers.append(SessionSendContinuation)
        self.world.finish(self.send(b"x" * 3000))
        self.assertEqual(told.acknowledged, [b"x" * 3000])
