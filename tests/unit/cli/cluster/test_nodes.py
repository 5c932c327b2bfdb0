"""The members of a cluster as commands find them, with what each of them says of the others."""

from __future__ import annotations

import json

from mqbroker.cli.management import UnknownAttribute
from tests.unit.cli.cluster.test_cluster import PLACES, A, B, C, Case


class NodeTests(Case):
    def test_a_duplicate_node_id_is_shown(self) -> None:
        self.first.answers["ContestedBy"] = ["10.0.0.9:61616"]
        self.assertIn("WARNING: another broker has the same node id, at 10.0.0.9:61616", self.run_with("cluster").out)
        self.assertEqual(json.loads(self.run_with("cluster", "--json").out)[0]["duplicateNodeID"], ["10.0.0.9:61616"])

    def test_an_artemis_shows_its_members_and_that_its_links_are_not_known(self) -> None:
        self.first.answers["LinksAsJSON"] = UnknownAttribute("Problem while retrieving attribute LinksAsJSON")
        result = self.run_with("cluster")
        self.assertEqual(result.status, 0, result.err)
        self.assertIn("Node one (aaaaaaaa-1) at 127.0.0.1:1001: an Artemis: its links are not known\n", result.out)
        rows = [[cell.strip() for cell in line.split("|")] for line in result.out.splitlines() if PLACES[C] in line]
        self.assertEqual(rows, [["", "", C, PLACES[C], "", "not known", ""]])
        (found,) = json.loads(self.run_with("cluster", "--json").out)
        self.assertEqual((found["links"], found["remoteBindings"], len(found["members"])), (None, None, 3))
        self.assertIn("[one] 127.0.0.1:1001\n   an Artemis: its links are not known\n[two]", self.run_with("cluster", "--graph").out)

    def test_an_artemis_among_others_is_asked_like_them(self) -> None:
        self.others[PLACES[B]].answers["LinksAsJSON"] = UnknownAttribute("Problem while retrieving attribute LinksAsJSON")
        result = self.run_with("cluster", "--all")
        self.assertEqual(result.status, 0, result.err)
        self.assertIn("Node two (bbbbbbbb-2) at 127.0.0.1:1002: an Artemis", result.out)
        self.assertNotIn("127.0.0.1:1002 is not reached", result.out)

    def test_an_artemis_without_a_cluster(self) -> None:
        self.first.answers |= {"listNetworkTopology": "[]", "ClusterConnectionNames": []}
        for options in ((), ("--all",)):
            result = self.run_with("cluster", *options)
            self.assertEqual((result.status, result.out), (0, "Node one (aaaaaaaa-1) is in no cluster\n"), result.err)
        self.assertEqual(self.run_with("cluster", "--graph").out, "[one]\n")
        self.assertEqual(json.loads(self.run_with("queue", "stat", "--clustered", "--json").out)["data"][0]["nodes"], {A: 2})

    def test_members_have_their_names_where_everybody_is_asked(self) -> None:
        lines = [[cell.strip() for cell in line.split("|")] for line in self.run_with("cluster", "--all").out.splitlines()]
        self.assertIn(["", "two", B, PLACES[B], "", "connected", ""], lines)
        self.assertEqual([line[1:3] for line in lines if PLACES[B] in line and line[1] == "two"][-1], ["two", B])
        self.assertIn(["two", "connected", PLACES[B]], [line[1:4] for line in lines])
        self.assertIn(["q", "q", "two"], [line[1:4] for line in lines])

    def test_members_that_were_not_asked_have_their_id(self) -> None:
        lines = [[cell.strip() for cell in line.split("|")] for line in self.run_with("cluster").out.splitlines()]
        self.assertIn([B, "connected", PLACES[B]], [line[1:4] for line in lines])
