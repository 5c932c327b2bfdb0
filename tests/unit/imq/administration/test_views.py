"""The cluster and the properties in OpenMQ's words."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.config.imq.layers import DEFAULT, INSTANCE, Layers, Origin, Setting
from mqbroker.imq.administration.views import cluster_rows, origin_rows
from tests.unit.cluster.support import member

OWN = "node 0"


def server(topology: list[Any], **states: str) -> Any:
    """A server whose cluster connection has this topology, and links in these states."""
    links = [{"nodeID": node_id, "state": state} for node_id, state in states.items()]
    connection = SimpleNamespace(topology=topology, links=lambda: links)
    return SimpleNamespace(node_id=OWN, cluster=SimpleNamespace(connections={"imq": connection}))


class ClusterTests(SynchronousTestCase):
    def rows(self, *arguments: Any) -> list[tuple[str, str]]:
        return [(row["address"], row["state"]) for row in cluster_rows(*arguments)]

    def test_members_are_named_as_the_list_names_them(self) -> None:
        announced = member("b", 1, 5)
        host = dict(announced.primary.parameters)["host"]
        place = f"{host}:{dict(announced.primary.parameters)['port']}"
        listed = [place.upper(), "away:1", "own:1"]
        self.assertEqual(
            self.rows(server([announced], b="connected"), "own:1", listed, "OPERATING"),
            [(place.upper(), "OPERATING"), ("away:1", "BROKER_DOWN"), ("own:1", "OPERATING")],
        )

    def test_a_member_without_a_link_is_down(self) -> None:
        announced = member("b", 1, 5)
        self.assertEqual(
            self.rows(server([announced], b="connecting"), "own:1", ["own:1"], "QUIESCE_COMPLETE")[0], ("own:1", "QUIESCE_COMPLETE")
        )
        self.assertEqual(self.rows(server([announced], b="connecting"), "own:1", [], "OPERATING")[1][1], "BROKER_DOWN")
        self.assertEqual(self.rows(server([announced]), "own:1", [], "OPERATING")[1][1], "BROKER_DOWN")

    def test_without_a_cluster_there_is_the_broker_itself(self) -> None:
        alone = SimpleNamespace(node_id=OWN, cluster=None)
        self.assertEqual(self.rows(alone, "own:1", ["own:1"], "OPERATING"), [("own:1", "OPERATING")])


class OriginTests(SynchronousTestCase):
    def test_each_property_says_what_it_does_and_who_gives_it(self) -> None:
        settings = [
            Setting("imq.hostname", "h", Origin(INSTANCE, "/f", 3)),
            Setting("imq.keystore.password", "secret", Origin(INSTANCE, "/f", 4)),
            Setting("imq.cluster.port", "1", Origin(INSTANCE, "/f", 5)),
            Setting("imq.bridge.enabled", "false", Origin(DEFAULT)),
            Setting("imq.nothing", "", Origin(DEFAULT)),
        ]
        rows = {row["name"]: row for row in origin_rows(Layers({each.name: each for each in settings}))}
        self.assertEqual(rows["imq.hostname"], {"name": "imq.hostname", "value": "h", "origin": "instance (/f:3)", "effect": "honoured"})
        self.assertEqual(rows["imq.keystore.password"]["value"], "****")
        self.assertTrue(rows["imq.cluster.port"]["effect"].startswith("changes nothing: "))
        self.assertTrue(rows["imq.bridge.enabled"]["effect"].startswith("no other value: "))
        self.assertNotIn("imq.nothing", rows)
