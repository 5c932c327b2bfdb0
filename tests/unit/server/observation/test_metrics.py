"""The Prometheus text, read back by the reference parser, and the HTTP resources."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from unittest import TestCase, mock

from prometheus_client.parser import text_string_to_metric_families

from mqbroker.server.observation.figures import BrokerFigures
from mqbroker.server.observation.gauges import Gauge, Gauges
from mqbroker.server.observation.metrics import ADDRESS_METRICS, BROKER_METRICS, QUEUE_METRICS, Figures, render
from tests.support.broker import World

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
        with mock.patch.object(server.others, "problem", lambda: "two brokers have one node id"):
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
