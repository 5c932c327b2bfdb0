"""``mqbroker cluster``, its pictures, and ``queue stat --clustered``: against members that answer from tables."""

from __future__ import annotations

import contextlib
import json
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.cli.cluster.cluster import fit
from mqbroker.cli.cluster.graph import draw_svg, draw_text
from mqbroker.cli.cluster.nodes import Link, Node, names_of
from mqbroker.cli.management import ManagementError, UnknownAttribute
from mqbroker.cli.options import ConnectionOptions
from mqbroker.cli.status import NoConnection
from tests.unit.cli.runner import FakeManagement, Result, mqbroker

A, B, C = "aaaaaaaa-1", "bbbbbbbb-2", "cccccccc-3"
PLACES = {A: "127.0.0.1:1001", B: "127.0.0.1:1002", C: "127.0.0.1:1003"}
MEMBERS = json.dumps([{"nodeID": node_id, "primary": place, "live": place} for node_id, place in PLACES.items()])
SVG = "{http://www.w3.org/2000/svg}"


def link(node_id: str, **more: Any) -> dict[str, Any]:
    values = {"nodeID": node_id, "state": "connected", "link": "started", "target": PLACES[node_id], "backlog": 0, "remoteBindings": 1}
    counters = {"messagesForwarded": 7, "messagesAcknowledged": 5, "messagesPending": 2, "retries": 0, "lastError": None, "since": None}
    return values | counters | {"credits": {"x": 4711, "y": 12}} | more


def queue(name: str, messages: int, **more: Any) -> dict[str, str]:
    counters = ("consumerCount", "messageCount", "messagesAdded", "deliveringCount", "messagesAcked", "scheduledCount")
    values = {"name": name, "address": name, "routingType": "ANYCAST", "internalQueue": "false"} | dict.fromkeys(counters, messages)
    return {key: str(value) for key, value in (values | more).items()}


def member(node_id: str, name: str, links: list[dict[str, Any]], queues: list[dict[str, str]] | None = None, **more: Any) -> FakeManagement:
    binding = {"name": "q", "address": "q", "nodeID": B, "distance": "1", "consumerCount": "3", "filter": None} | {
        "connected": "true",
        "inUse": "true",
    }
    answers: dict[str, Any] = {
        "NodeID": node_id,
        "Name": name,
        "listNetworkTopology": MEMBERS,
        "ClusterConnectionNames": ["cc"],
        "LinksAsJSON": json.dumps(links),
        "ContestedBy": [],
        "listRemoteBindings": json.dumps({"data": [binding], "count": 1}),
        "listQueues": json.dumps({"data": queues or [], "count": len(queues or [])}),
    }
    return FakeManagement(**answers | more)


class Case(SynchronousTestCase):
    def setUp(self) -> None:
        late = link(C, state="connecting", link="waiting", backlog=9, retries=4, lastError="refused", since=0)
        self.first = member(A, "one", [link(B), late], [queue("q", 2), queue("activemq.management.x", 1)])
        self.others: dict[str, FakeManagement] = {PLACES[B]: member(B, "two", [link(A)], [queue("q", 40), queue("r", 1)])}
        self.asked: list[str | None] = []

    @contextlib.contextmanager
    def opened(self, options: ConnectionOptions) -> Iterator[FakeManagement]:
        self.asked.append(options.url)
        place = (options.url or "").removeprefix("tcp://").partition("?")[0]
        if place == PLACES[C]:
            raise NoConnection("Connection failed::refused")
        yield self.others.get(place, self.first)

    def run_with(self, *arguments: str) -> Result:
        with (
            mock.patch("mqbroker.cli.cluster.cluster.management", self.opened),
            mock.patch("mqbroker.cli.queues.queue_stat.management", self.opened),
        ):
            return mqbroker(*arguments)


class ClusterTests(Case):
    def test_one_broker(self) -> None:
        result = self.run_with("cluster")
        self.assertEqual(result.status, 0, result.err)
        self.assertIn("Node one (aaaaaaaa-1) at 127.0.0.1:1001", result.out)
        for shown in ("this broker", "connecting", "refused", "1970-01-01", "|  12   |", PLACES[B]):
            self.assertIn(shown, result.out)
        self.assertNotIn("Node two", result.out)

    def test_every_member_and_one_that_is_away(self) -> None:
        result = self.run_with("cluster", "--all", "--url", f"tcp://{PLACES[A]}?sslEnabled=true")
        self.assertEqual(result.status, 0, result.err)
        self.assertIn("Node two", result.out)
        self.assertIn(f"Node {C} at {PLACES[C]} is not reached: Connection failed::refused", result.out)
        self.assertEqual(self.asked[1:], [f"tcp://{PLACES[node]}?sslEnabled=true" for node in (B, C)])

    def test_json(self) -> None:
        found = json.loads(self.run_with("cluster", "--json", "--all").out)
        self.assertEqual([node["nodeID"] for node in found], [A, B, C])
        self.assertEqual([each["backlog"] for each in found[0]["links"]], [0, 9])
        self.assertEqual(found[0]["links"][0]["clusterConnection"], "cc")
        self.assertEqual(found[0]["remoteBindings"][0]["consumerCount"], "3")
        self.assertEqual(found[2], {"nodeID": C, "primary": PLACES[C], "error": "Connection failed::refused"})

    def test_a_member_that_goes_while_it_is_asked_is_named(self) -> None:
        self.others[PLACES[B]].answers["LinksAsJSON"] = ManagementError("no answer")
        found = json.loads(self.run_with("cluster", "--json", "--all").out)
        self.assertEqual(found[1], {"nodeID": B, "primary": PLACES[B], "error": "no answer"})

    def test_the_queue_of_the_answers_is_left_out(self) -> None:
        row = json.loads(str(self.others[PLACES[B]].answers["listRemoteBindings"]))["data"][0] | {"name": FakeManagement.reply_queue}
        self.others[PLACES[B]].answers["listRemoteBindings"] = json.dumps({"data": [row], "count": 1})
        found = json.loads(self.run_with("cluster", "--json", "--all").out)
        self.assertEqual([len(node["remoteBindings"]) for node in found[:2]], [1, 0])

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

    def test_a_watched_cluster_fits_the_terminal(self) -> None:
        text = "\n".join(f"line {number}" for number in range(10))
        self.assertEqual(fit(text, 80, 11), text)
        lines = fit(text, 80, 6).split("\n")
        self.assertEqual(lines[:4], ["line 0", "line 1", "line 2", "line 3"])
        self.assertEqual((len(lines), lines[4][:14]), (5, "… 6 more lines"))
        # A line that is wider than the terminal takes several of its lines.
        self.assertEqual(fit("x" * 25 + "\na\nb\nc", 10, 6).split("\n")[:2], ["x" * 25, "a"])
        self.assertEqual(fit("x" * 25 + "\na\nb\nc", 10, 7), "x" * 25 + "\na\nb\nc")

    def test_rows_are_limited_and_fetched_by_pages(self) -> None:
        page = {"data": [json.loads(self.first.answers["listRemoteBindings"])["data"][0]] * 1000, "count": 1500}  # type: ignore[arg-type]
        rest = {"data": page["data"][:500], "count": 1500}  # type: ignore[index]
        answers = iter([json.dumps(page), json.dumps(rest)])

        def answer(name: str) -> object:
            return next(answers) if name == "listRemoteBindings" else self.first.answers[name]

        with mock.patch.object(self.first, "_answer", side_effect=answer):
            self.assertIn("WARNING: the displayed remote bindings are 3/1500", self.run_with("cluster", "--maxRows", "3").out)

    def test_watch_goes_on_until_it_is_interrupted(self) -> None:
        with mock.patch("mqbroker.cli.cluster.cluster.time.sleep", side_effect=[None, KeyboardInterrupt]) as sleep:
            result = self.run_with("cluster", "--watch", "--sleep", "500")
        self.assertEqual((result.status, result.out.count("Node one")), (130, 2))
        sleep.assert_called_with(0.5)

    def test_graph_on_the_terminal_and_in_files(self) -> None:
        text = self.run_with("cluster", "--graph").out
        self.assertIn("──▶ [two] connected, backlog 0", text)
        file, other = Path(self.mktemp() + ".svg"), Path(self.mktemp() + ".txt")
        self.assertEqual(self.run_with("cluster", "--graph", str(file)).status, 0)
        self.assertEqual(ElementTree.parse(file).getroot().tag, f"{SVG}svg")
        self.run_with("cluster", "--graph", str(other))
        self.assertEqual(other.read_text(), text)
        self.assertEqual(self.run_with("cluster", "--graph", "/nonexistent/x.svg").status, 1)
        self.assertEqual(self.run_with("cluster", "--json", "--graph").status, 2)


class GraphTests(SynchronousTestCase):
    nodes = [
        Node(A, PLACES[A], "one<&>", links=[Link("cc", link(B)), Link("cc", link(C, state="connecting", backlog=9))]),
        Node(B, PLACES[B], "two", links=[Link("cc", link(A))], twins=["x:1"]),
        Node(C, PLACES[C], error="refused"),
    ]

    def test_text(self) -> None:
        self.assertEqual(
            draw_text(self.nodes).splitlines(),
            [
                "[one<&>] 127.0.0.1:1001",
                "   ──▶ [two] connected, backlog 0",
                "   ─╳▶ [cccccccc] connecting, backlog 9",
                "[two] 127.0.0.1:1002",
                "   same node id as the broker at x:1",
                "   ──▶ [one<&>] connected, backlog 0",
                "[cccccccc] 127.0.0.1:1003",
                "   not reached: refused",
            ],
        )

    def test_svg_has_every_node_and_every_link_with_its_direction(self) -> None:
        root = ElementTree.fromstring(draw_svg(self.nodes))
        groups = root.findall(f"{SVG}g")
        self.assertEqual({group.get("data-node") for group in groups} - {None}, {A, B, C})
        links = {str(group.get("data-link")): group for group in groups if group.get("data-link")}
        self.assertEqual(set(links), {"one<&> two", "one<&> cccccccc", "two one<&>"})
        self.assertEqual("".join(links["one<&> cccccccc"].itertext()), "one<&> to cccccccc: connecting, backlog 9connecting, backlog 9")
        lines = {name: group.find(f"{SVG}line").attrib for name, group in links.items()}  # type: ignore[union-attr]
        self.assertIn("stroke-dasharray", lines["one<&> cccccccc"])
        self.assertNotIn("stroke-dasharray", lines["one<&> two"])
        there, back = lines["one<&> two"], lines["two one<&>"]
        self.assertNotEqual((there["x1"], there["y1"]), (back["x2"], back["y2"]))

    def test_every_arrow_leads_from_the_edge_of_one_box_to_the_edge_of_another(self) -> None:
        root = ElementTree.fromstring(draw_svg(self.nodes))
        rectangles = root.findall(f"{SVG}g/{SVG}rect")
        boxes = [{name: float(box.get(name, "")) for name in ("x", "y", "width", "height")} for box in rectangles]
        lines = root.findall(f"{SVG}g/{SVG}line")
        ends = [(float(line.get(f"x{end}", "")), float(line.get(f"y{end}", ""))) for line in lines for end in "12"]
        self.assertEqual((len(boxes), len(ends)), (3, 6))
        for x, y in ends:
            nearest = min(
                max(abs(x - box["x"] - box["width"] / 2) - box["width"] / 2, abs(y - box["y"] - box["height"] / 2) - box["height"] / 2)
                for box in boxes
            )
            self.assertAlmostEqual(nearest, 0, delta=0.2)

    def test_the_beginning_of_an_id_is_shown_once(self) -> None:
        def shown(name: str) -> list[str]:
            root = ElementTree.fromstring(draw_svg([Node(A, PLACES[A], name)]))
            return [text.text or "" for text in root.findall(f"{SVG}g/{SVG}text")]

        self.assertEqual(shown("one"), ["one", PLACES[A], "aaaaaaaa"])
        self.assertEqual(shown(""), ["aaaaaaaa", PLACES[A], ""])

    def test_one_node_alone(self) -> None:
        root = ElementTree.fromstring(draw_svg([Node(A, PLACES[A], "one")]))
        self.assertEqual(len(root.findall(f"{SVG}g")), 1)

    def test_equal_names_get_the_beginning_of_the_id(self) -> None:
        found = names_of([Node(A, "", "x"), Node(B, "", "x"), Node(C, "", "y")])
        self.assertEqual(list(found.values()), ["x/aaaaaaaa", "x/bbbbbbbb", "y"])


class ClusteredStatTests(Case):
    def stat(self, *arguments: str) -> Result:
        return self.run_with("queue", "stat", "--clustered", *arguments)

    def test_sums(self) -> None:
        result = self.stat("--json")
        found = json.loads(result.out)
        self.assertEqual([(entry["name"], entry["messageCount"]) for entry in found["data"]], [("q", 42), ("r", 1)])
        self.assertEqual(found["data"][0]["nodes"], {A: 2, B: 40})
        self.assertEqual([node["nodeID"] for node in found["nodes"] if "error" in node], [C])
        self.assertIn(f"WARNING: {C} at {PLACES[C]} is not counted", result.err)

    def test_a_column_for_each_node(self) -> None:
        lines = self.stat("--per-node", "--single-line-header").out.splitlines()
        header = next(line for line in lines if line.startswith("|NAME"))
        self.assertEqual([cell.strip() for cell in header.split("|")][-4:-1], ["ONE", "TWO", C[:8].upper()])
        row = next(line for line in lines if line.startswith("|q "))
        self.assertEqual([cell.strip() for cell in row.split("|")][-4:-1], ["2", "40", ""])
        self.assertEqual(self.run_with("queue", "stat", "--per-node").status, 2)

    def test_filters_are_about_the_sums(self) -> None:
        def names(*arguments: str) -> list[str]:
            return [entry["name"] for entry in json.loads(self.stat("--json", *arguments).out)["data"]]

        count = ("--field", "MESSAGE_COUNT", "--operation")
        self.assertEqual(names(*count, "GREATER_THAN", "--value", "41"), ["q"])
        self.assertEqual(names(*count, "LESS_THAN", "--value", "2"), ["r"])
        self.assertEqual(names(*count, "NOT_EQUALS", "--value", "42"), ["r"])
        self.assertEqual(names("--queueName", "q"), ["q"])
        self.assertEqual(names("--field", "NAME", "--operation", "NOT_CONTAINS", "--value", "q"), ["r"])
        self.assertEqual(self.stat(*count, "EQUALS", "--value", "many").status, 2)
        self.assertEqual(self.stat("--field", "NAME", "--operation", "LESS_THAN", "--value", "q").status, 2)

    def test_more_than_are_shown(self) -> None:
        self.assertIn("WARNING: the displayed queues are 1/2", self.stat("--maxRows", "1").out)
        self.assertIn("activemq.management.x", self.stat("--include-management").out)

    def test_queues_of_the_brokers_themselves_come_last_and_only_when_asked_for(self) -> None:
        internal = [queue("$.artemis.internal.sf.cc.x", 7, internalQueue="true"), queue("notif.x", 0, address="activemq.notifications")]
        own = [queue("zz", 1), queue("notif.orders", 2)]
        self.first.answers["listQueues"] = json.dumps({"data": internal + own, "count": 4})
        self.others[PLACES[B]].answers["listQueues"] = json.dumps({"data": internal[:1], "count": 1})
        sf, notif = internal[0]["name"], internal[1]["name"]

        def names(*arguments: str) -> list[str]:
            return [entry["name"] for entry in json.loads(self.run_with("queue", "stat", "--json", *arguments).out)["data"]]

        for scope in ((), ("--clustered",)):
            self.assertEqual(names(*scope), ["notif.orders", "zz"])
            self.assertEqual(names(*scope, "--internal"), ["notif.orders", "zz", sf, notif])
            self.assertEqual(names(*scope, "--internal", "--maxRows", "1"), ["notif.orders"])
            text = self.run_with("queue", "stat", *scope).out
            self.assertIn("Internal queues that are not shown: 2 (--internal shows them)", text)
            self.assertNotIn("WARNING: the displayed", text)
            self.assertNotIn("not shown", self.run_with("queue", "stat", *scope, "--internal").out)
        # Whoever names queues means those.
        self.assertIn(sf, names("--clustered", "--queueName", "sf."))
        self.assertIn(sf, names("--clustered", "--field", "MESSAGE_COUNT", "--operation", "GREATER_THAN", "--value", "5"))
