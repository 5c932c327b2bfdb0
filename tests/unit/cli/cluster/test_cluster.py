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
from mqbroker.cli.management import ManagementError
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
