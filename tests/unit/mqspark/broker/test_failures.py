"""Which error a user gets for what the broker answers, and how nodes are described."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from mqclient import errors as core
from mqspark import errors
from mqspark.broker.failures import failure


class FailureTests(SynchronousTestCase):
    def test_kinds(self) -> None:
        for given, doing, kind in (
            (core.QueueDoesNotExistError("q"), "reading queue q", errors.MissingQueueError),
            (core.AddressDoesNotExistError("a"), "sending", errors.MissingQueueError),
            (core.SecurityError("AMQ229032: User: x does not have permission"), "reading queue q", errors.PermissionDeniedError),
            (core.SecurityError("AMQ229031: Unable to validate user"), "logging in", errors.LoginError),
            (core.InvalidFilterExpressionError("a ="), "reading queue q", errors.BadOptionError),
            (core.MalformedPacketError("READER_MESSAGES", "sizes", "cut off"), "reading queue q", errors.MessageFormatError),
            (core.IllegalStateError("AMQ229901: queue q has no reader r"), "settling", errors.ReaderMissingError),
            (core.IllegalStateError("AMQ229902: reader r of queue q was opened by another one"), "settling", errors.FencedError),
            (
                core.InvalidQueueConfigurationError("AMQ229903: the name of a reader has 1 to 256 characters"),
                "opening",
                errors.BadOptionError,
            ),
            (core.IllegalStateError("AMQ229904: queue q cannot have reader r: it has 1 consumers"), "opening", errors.ReaderRefusedError),
            (core.MaxConsumerLimitExceededError("AMQ229905: this broker has 9 readers already"), "opening", errors.ReaderRefusedError),
            (core.IllegalStateError("AMQ229908: queue q has no large message 7"), "reading the body", errors.MessageGoneError),
            (core.IllegalStateError("AMQ229909: the address a keeps 5 duplicate ids"), "sending to a", errors.DuplicateCacheError),
            (core.IllegalStateError("something else"), "asking for queue q", errors.MqsparkError),
            (core.IOFailureError("disk"), "asking", errors.MqsparkError),
        ):
            found = failure(given, doing)
            self.assertIs(type(found), kind, given)
            self.assertEqual(str(found), f"{doing}: {given}")

    def test_an_error_without_text_has_its_name(self) -> None:
        self.assertEqual(str(failure(core.IOFailureError(""), "asking")), "asking: IOFailureError")
