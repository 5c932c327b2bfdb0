"""Errors and their codes on the wire."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from mqclient.errors import (
    ERROR_CLASSES,
    AddressFullError,
    FrameTooLargeError,
    GenericError,
    MalformedPacketError,
    MQError,
    QueueDoesNotExistError,
    error_for_code,
)


class ErrorTests(SynchronousTestCase):
    def test_a_code_becomes_its_class_with_its_text(self) -> None:
        error = error_for_code(100, "no such queue")
        self.assertIsInstance(error, QueueDoesNotExistError)
        self.assertEqual(str(error), "no such queue")

    def test_every_class_comes_back_from_its_own_code(self) -> None:
        for code, kind in ERROR_CLASSES.items():
            self.assertIs(type(error_for_code(code, None)), kind)
            self.assertEqual(kind.code, code)

    def test_a_code_that_nobody_knows_is_a_generic_error(self) -> None:
        self.assertIs(type(error_for_code(12345, None)), GenericError)

    def test_a_code_belongs_to_one_class(self) -> None:
        def again() -> None:
            class Again(MQError):
                code = 100

        self.assertRaises(TypeError, again)
        self.assertIs(ERROR_CLASSES[100], QueueDoesNotExistError)

    def test_errors_that_only_happen_here_travel_as_generic_ones(self) -> None:
        self.assertEqual(FrameTooLargeError.code, GenericError.code)

    def test_a_full_address_may_be_tried_again_and_a_missing_queue_not(self) -> None:
        self.assertEqual((AddressFullError.retriable, QueueDoesNotExistError.retriable), (True, False))

    def test_a_malformed_packet_says_where_it_is_wrong(self) -> None:
        error = MalformedPacketError("PING", "ttl", "is cut off")
        self.assertEqual((str(error), error.packet, error.field), ("PING.ttl: is cut off", "PING", "ttl"))
