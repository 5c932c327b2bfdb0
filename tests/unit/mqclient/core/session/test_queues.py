"""Queues that are made when they are missing, and producers that want one."""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from mqclient.core.api import QueueConfiguration
from mqclient.errors import AddressDoesNotExistError, QueueDoesNotExistError, QueueExistsError, SecurityError
from mqclient.wire.packets import (
    BindingQuery,
    BindingQueryResponse,
    BindingQueryResponseV5,
    CreateProducer,
    CreateQueueV2,
    ExceptionResponse,
    QueueQuery,
)
from tests.support.network import ScriptedBroker, World


class QueueTestCase(SynchronousTestCase):
    def setUp(self) -> None:
        self.broker = ScriptedBroker()
        self.world = World(self.broker)
        self.session = self.world.session()


class RequiredQueueTests(QueueTestCase):
    def found(self, exists: bool, *names: str) -> None:
        self.broker.answers[BindingQuery] = lambda packet: BindingQueryResponseV5(exists, names)

    def create(self, address: str | None) -> Any:
        return self.world.finish(self.session.create_producer(address, require_queue=True))

    def test_an_address_that_does_not_exist_is_an_error(self) -> None:
        self.found(False)
        with self.assertRaises(AddressDoesNotExistError) as caught:
            self.create("typo")
        self.assertIn("the address typo does not exist", str(caught.exception))
        self.assertEqual(self.broker.got(CreateProducer), [])
        self.assertEqual(self.session.producers, ())

    def test_an_address_without_a_queue_is_an_error(self) -> None:
        self.found(True)
        self.assertRaises(QueueDoesNotExistError, self.create, "a")

    def test_a_queue_suffices_also_where_only_a_wildcard_names_the_address(self) -> None:
        for exists in (True, False):
            self.found(exists, "q")
            self.assertEqual(self.create("a").address, "a")

    def test_a_fully_qualified_name_needs_that_queue(self) -> None:
        self.found(True, "q1", "q2")
        self.assertEqual(self.create("a::q2").address, "a::q2")
        self.assertEqual([packet.address for packet in self.broker.got(BindingQuery)], ["a"])
        with self.assertRaises(QueueDoesNotExistError) as caught:
            self.create("a::q3")
        self.assertIn("no queue q3", str(caught.exception))

    def test_old_brokers_are_asked_too(self) -> None:
        self.broker = ScriptedBroker(version=124)
        self.world = World(self.broker)
        self.session = self.world.session()
        self.broker.answers[BindingQuery] = lambda packet: BindingQueryResponse(False, ())
        self.assertRaises(AddressDoesNotExistError, self.create, "a")

    def test_without_an_address_there_is_nothing_to_ask(self) -> None:
        self.assertRaises(ValueError, self.create, None)

    def test_the_broker_is_not_asked_otherwise(self) -> None:
        self.found(False)
        self.world.finish(self.session.create_producer("typo"))
        self.assertEqual(self.broker.got(BindingQuery), [])


class MissingQueueTests(QueueTestCase):
    def create(self, name: str = "a::q") -> None:
        self.world.finish(self.session.create_queue(QueueConfiguration(name=name), if_missing=True))

    def test_a_queue_that_exists_is_left_as_it_is(self) -> None:
        self.create()
        self.assertEqual([packet.queue_name for packet in self.broker.got(QueueQuery)], ["q"])
        self.assertEqual(self.broker.got(CreateQueueV2), [])

    def test_one_that_is_missing_is_created(self) -> None:
        self.broker.queue_info["exists"] = False
        self.create()
        self.assertEqual([(packet.address, packet.queue_name) for packet in self.broker.got(CreateQueueV2)], [("a", "q")])

    def test_somebody_else_may_be_quicker(self) -> None:
        self.broker.queue_info["exists"] = False
        self.broker.answers[CreateQueueV2] = lambda packet: ExceptionResponse(QueueExistsError.code, "it is there")
        self.create()

    def test_other_refusals_are_errors(self) -> None:
        self.broker.queue_info["exists"] = False
        self.broker.answers[CreateQueueV2] = lambda packet: ExceptionResponse(SecurityError.code, "no")
        self.assertRaises(SecurityError, self.create)

    def test_without_the_keyword_an_existing_queue_is_an_error(self) -> None:
        self.broker.answers[CreateQueueV2] = lambda packet: ExceptionResponse(QueueExistsError.code, "it is there")
        with self.assertRaises(QueueExistsError):
            self.world.finish(self.session.create_queue(QueueConfiguration(name="q")))
