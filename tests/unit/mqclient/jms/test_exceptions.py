"""Errors of the protocol as programs of JMS see them."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from mqclient import errors
from mqclient.jms.exceptions import (
    JMS_ERRORS,
    IllegalStateException,
    InvalidDestinationException,
    InvalidSelectorException,
    JMSException,
    JMSSecurityException,
    TransactionRolledBackException,
)

EXPECTED = {
    errors.UnsupportedPacketError: IllegalStateException,
    errors.ObjectClosedError: IllegalStateException,
    errors.IllegalStateError: IllegalStateException,
    errors.QueueDoesNotExistError: InvalidDestinationException,
    errors.QueueExistsError: InvalidDestinationException,
    errors.InvalidFilterExpressionError: InvalidSelectorException,
    errors.SecurityError: JMSSecurityException,
    errors.TransactionRolledBackError: TransactionRolledBackException,
    errors.AddressFullError: JMSException,
}
"""As in the Java client."""


class ExceptionTests(SynchronousTestCase):
    def raised(self, error: BaseException) -> JMSException:
        def fail() -> None:
            with JMS_ERRORS:
                raise error

        return self.assertRaises(JMSException, fail)

    def test_errors_become_those_of_the_java_client_and_keep_code_and_cause(self) -> None:
        for kind, expected in EXPECTED.items():
            error = kind("why")
            found = self.raised(error)
            self.assertIs(type(found), expected)
            self.assertEqual((str(found), found.error_code, found.__cause__), ("why", str(kind.code), error))

    def test_an_exception_of_jms_stays_as_it_is(self) -> None:
        error = IllegalStateException("closed")
        self.assertIs(self.raised(error), error)

    def test_other_errors_are_left_alone(self) -> None:
        with self.assertRaises(KeyError), JMS_ERRORS:
            raise KeyError
