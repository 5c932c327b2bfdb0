"""The Prometheus text, read back by the reference parser, and the HTTP resources."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from unittest import TestCase

from prometheus_client.parser import text_string_to_metric_families
from twisted.internet.testing import StringTransport
from twisted.trial.unittest import SynchronousTestCase
from twisted.web.server import NOT_DONE_YET, Site
from twisted.web.test.requesthelper import DummyRequest

from mqbroker.server.observation.figures import BrokerFigures
from mqbroker.server.observation.gauges import Gauge, Gauges
from mqbroker.server.observation.health import MetricsResource, health_root
from mqbroker.server.observation.metrics import ADDRESS_METRICS, BROKER_METRICS, QUEUE_METRICS, Figures, render
from tests.unit.server.support import World

Labels = tuple[tuple[str, str], ...]


class Source:
    broker_name = 'b"1\\x\nü'

    def __init__(self) -> None:
        self.without: set[str] = set()
        self.added = Gauges()
        self.queue_figures: dict[str, float] = {name: at for at, name in enumerate(QUEUE_METRICS)}

    def broker(self) -> Figures:
        return {**{name: at for at, name in enumerate(BROKER_METRICS)}, "disk.store.usage": 0.25}

    def results(self) -> Mapping[str, tuple[int, int]]:
        return {"authentication.count": (3, 1), "authorization.count": (10, 0)}

    def addresses(self) -> Iterable[tuple[str, Figures]]:
        for name in ("orders", 'odd"{}\\name'):
            yield name, {name: at for at, name in enumerate(ADDRESS_METRICS)}

    def queues(self) -> Iterable[tuple[str, str, Figures]]:
        yield "orders", "eu", self.queue_figures
        yield "orders", "us\n", self.queue_figures

    def gauges(self) -> Iterable[Gauge]:
        return self.added

    def metrics_enabled(self, address: str) -> bool:
        return address not in self.without


def samples(source: Source) -> dict[tuple[str, Labels], float]:
    found: dict[tuple[str, Labels], float] = {}
    for family in text_string_to_metric_families(b"".join(render(source)).decode()):
        assert family.type == "gauge", family
        assert family.documentation, family
        for sample in family.samples:
            key = sample.name, tuple(sorted(sample.labels.items()))
            assert key not in found
            found[key] = sample.value
    return found


BROKER = ("broker", Source.broker_name)


class RenderTests(TestCase):
    def test_names_and_labels(self) -> None:
        found = samples(Source())
        self.assertEqual(found["artemis_message_count", (("address", "orders"), BROKER, ("queue", "eu"))], 0)
        self.assertEqual(found["artemis_delivering_persistent_size", (("address", "orders"), BROKER, ("queue", "us\n"))], 6)
        self.assertEqual(found["artemis_address_size", (("address", 'odd"{}\\name'), BROKER)], 2)
        self.assertEqual(found["artemis_disk_store_usage", (BROKER,)], 0.25)
        self.assertEqual(found["artemis_authentication_count", (BROKER, ("result", "failure"))], 1)
        self.assertEqual(found["artemis_authorization_count", (BROKER, ("result", "success"))], 10)
        self.assertEqual(len(found), len(BROKER_METRICS) + 2 * 2 + 2 * len(ADDRESS_METRICS) + 2 * len(QUEUE_METRICS))

    def test_exported_names_are_those_of_the_manual(self) -> None:
        names = {name for name, _ in samples(Source())}
        for name in (
            "total_connection_count",
            "address_memory_usage_percentage",
            "replica_sync",
            "active",
            "unrouted_message_count",
            "number_of_pages",
        ):
            self.assertIn(f"artemis_{name}", names)
        for name in ("durable_persistent_size", "delivering_durable_persistent_size", "scheduled_durable_message_count", "messages_killed"):
            self.assertIn(f"artemis_{name}", names)

    def test_enable_metrics_false_takes_the_address_and_its_queues_away(self) -> None:
        source = Source()
        source.without.add("orders")
        addresses = {dict(labels).get("address") for _, labels in samples(source)}
        self.assertEqual(addresses, {None, 'odd"{}\\name'})

    def test_figures_that_are_not_given_have_no_series(self) -> None:
        source = Source()
        del source.queue_figures["persistent.size"]
        self.assertNotIn("artemis_persistent_size", {name for name, _ in samples(source)})
        self.assertNotIn(b"artemis_persistent_size", b"".join(render(source)))

    def test_series_of_parts_that_come_and_go(self) -> None:
        source = Source()
        for link in ('b"', "c"):
            source.added.register("link.pending", "Messages on their way", {"cluster": "my", "node": link}, lambda: 5)
        remove = source.added.register("link.pending", "Messages on their way", {"cluster": "my", "node": "c"}, lambda: 7)
        found = {dict(labels)["node"]: value for (name, labels), value in samples(source).items() if name == "artemis_link_pending"}
        self.assertEqual(found, {'b"': 5, "c": 7})
        remove()
        remove()
        self.assertEqual([dict(gauge.labels)["node"] for gauge in source.added], ['b"'])

    def test_a_broker_shows_them_and_their_checks(self) -> None:
        server = World().server
        server.gauges.register("link.pending", "Messages on their way", {}, lambda: 5)
        self.assertIn(b"\nartemis_link_pending{broker=", b"".join(render(BrokerFigures(server, lambda: 0.5, lambda: None))))
        self.assertIsNone(server.problem())
        server.health_checks += [lambda: None, lambda: "two brokers have one node id"]
        self.assertEqual(server.problem(), "two brokers have one node id")
        server.stop()
        self.assertEqual(server.problem(), "the broker is not active")

    def test_numbers(self) -> None:
        source = Source()
        source.queue_figures = {"messages.added": 2**60 + 1, "message.count": math.inf, "consumer.count": math.nan, "persistent.size": True}
        text = b"".join(render(source)).decode()
        self.assertIn(f" {2**60 + 1}\n", text)
        found = {name: value for (name, labels), value in samples(source).items() if ("queue", "eu") in labels}
        self.assertEqual((found["artemis_message_count"], found["artemis_persistent_size"]), (math.inf, 1))
        self.assertTrue(math.isnan(found["artemis_consumer_count"]))


class CheckTests(TestCase):
    def setUp(self) -> None:
        self.problem: str | None = None

    def get(self, path: str, method: str = "GET") -> tuple[int, bytes]:
        """What a server answers, over a transport in memory."""
        site: Any = Site(health_root(lambda: None, lambda: self.problem))  # type: ignore[no-untyped-call]
        site.log = lambda request: None
        channel: Any = site.buildProtocol(None)
        transport: Any = StringTransport()  # type: ignore[no-untyped-call]
        channel.makeConnection(transport)
        channel.dataReceived(f"{method} {path} HTTP/1.0\r\n\r\n".encode())
        channel.connectionLost(None)
        head, _, body = transport.value().partition(b"\r\n\r\n")
        return int(head.split()[1]), body

    def test_checks(self) -> None:
        self.assertEqual(self.get("/health/live"), (200, b"ok\n"))
        self.assertEqual(self.get("/health/ready"), (200, b"ok\n"))
        self.problem = "not started"
        self.assertEqual(self.get("/health/live"), (200, b"ok\n"))
        self.assertEqual(self.get("/health/ready"), (503, b"not started\n"))
        self.assertEqual(self.get("/health/ready", "HEAD"), (503, b""))

    def test_nothing_else(self) -> None:
        for path in ("/", "/health", "/health/", "/health/other", "/other", "/metrics"):
            self.assertEqual(self.get(path)[0], 404, path)


class MetricsResourceTests(SynchronousTestCase):
    def get(self, pieces: Iterator[bytes], method: bytes = b"GET") -> Any:
        request: Any = DummyRequest([b""])
        request.method = method
        request.transport = StringTransport()  # type: ignore[no-untyped-call]
        resource: Any = MetricsResource(lambda: pieces)
        body = resource.render(request)
        if body is not NOT_DONE_YET:
            request.write(body)
            request.finish()
        return request

    def test_pieces_are_written_one_by_one(self) -> None:
        request = self.get(iter((b"a 1\n", b"b 2\n")))
        self.assertEqual(request.written, [b"a 1\n", b"b 2\n"])
        self.assertEqual(request.finished, 1)
        self.assertEqual(request.responseHeaders.getRawHeaders(b"content-type"), [b"text/plain; version=0.0.4; charset=utf-8"])

    def test_head(self) -> None:
        self.assertEqual(self.get(self.failing(0), b"HEAD").written, [b""])

    def test_failure_before_the_first_piece(self) -> None:
        request = self.get(self.failing(0))
        self.assertEqual((request.responseCode, request.finished, request.written), (500, 1, []))
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 1)

    def test_failure_in_the_middle_cuts_the_connection(self) -> None:
        """Half a text must not look like a whole one."""
        request = self.get(self.failing(1))
        self.assertEqual((request.finished, request.transport.disconnected), (0, True))
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 1)

    def test_client_that_leaves(self) -> None:
        """Nothing is rendered for it any more, and nothing is written to a request that has ended."""
        producers: list[Any] = []
        request: Any = DummyRequest([b""])
        request.registerProducer = lambda producer, streaming: producers.append(producer)
        pieces = iter((b"a", b"b", b"c"))
        resource: Any = MetricsResource(lambda: pieces)
        resource.render(request)
        producers[0].resumeProducing()
        producers[0].stopProducing()
        producers[0].resumeProducing()
        self.assertEqual((request.written, request.finished, list(pieces)), ([b"a"], 0, [b"b", b"c"]))

    @staticmethod
    def failing(pieces: int) -> Iterator[bytes]:
        for _ in range(pieces):
            yield b"a 1\n"
        raise ZeroDivisionError
