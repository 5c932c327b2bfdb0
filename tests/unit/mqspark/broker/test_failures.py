"""Which error a user gets for what the broker answers, and how nodes are described."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from mqclient import errors as core
from mqclient.core.connection.configuration import NETTY_CONNECTOR
from mqclient.wire.primitives import TransportConfiguration
from mqspark import errors
from mqspark.broker.failures import failure
from mqspark.broker.management import id_cache_size
from mqspark.broker.nodes import Node, distinct, with_tls_of


def connector(name: str = "c", **parameters: object) -> TransportConfiguration:
    return TransportConfiguration(name, NETTY_CONNECTOR, tuple((key, str(value)) for key, value in parameters.items()))


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
            (core.IllegalStateError("AMQ229909: the address a keeps 5 duplicate ids"), "sending to a", errors.DuplicateCacheError),
            (core.IllegalStateError("something else"), "asking for queue q", errors.MqsparkError),
            (core.IOFailureError("disk"), "asking", errors.MqsparkError),
        ):
            found = failure(given, doing)
            self.assertIs(type(found), kind, given)
            self.assertEqual(str(found), f"{doing}: {given}")

    def test_an_error_without_text_has_its_name(self) -> None:
        self.assertEqual(str(failure(core.IOFailureError(""), "asking")), "asking: IOFailureError")


class NodeTests(SynchronousTestCase):
    def test_a_node_says_where_it_is(self) -> None:
        node = Node("n-1", (connector(host="a", port=1), connector(host="b", port=2)))
        self.assertEqual(str(node), "n-1 (a:1, b:2)")

    def test_the_same_place_counts_once(self) -> None:
        first, again, other = connector("x", host="a", port=1), connector("y", port=1, host="a"), connector(host="a", port=2)
        self.assertEqual(distinct([first, again, other]), (first, other))

    def test_an_announced_connector_gets_the_stores_of_this_side(self) -> None:
        own = connector(host="a", port=1, sslEnabled="true", trustStorePath="mine", verifyHost="false", localPort=7)
        announced = connector(host="b", port=2, sslEnabled="true", verifyHost="true")
        merged = dict(with_tls_of(own, announced).parameters)
        self.assertEqual(merged, {"host": "b", "port": "2", "sslEnabled": "true", "verifyHost": "true", "trustStorePath": "mine"})
        plain = connector(host="b", port=2)
        self.assertIs(with_tls_of(own, plain), plain)

    def test_no_password_is_shown(self) -> None:
        connector = TransportConfiguration("c", "f", (("host", "h"), ("port", "1"), ("sslEnabled", "true"), ("keyStorePassword", "secret")))
        self.assertEqual(repr([Node("n", (connector,))]), "[n (h:1)]")


class IdCacheTests(SynchronousTestCase):
    def test_sizes(self) -> None:
        for settings, size in (
            ('{"idCacheSize": 500}', 500),
            ('{"id-cache-size": 7}', 7),
            ({"idCacheSize": 3}, 3),
            ("{}", None),
            ('{"idCacheSize": null}', None),
            ('{"idCacheSize": true}', None),
            ('{"idCacheSize": 0}', None),
            ("no json", None),
            ("[1]", None),
            (None, None),
        ):
            self.assertEqual(id_cache_size(settings), size, settings)
