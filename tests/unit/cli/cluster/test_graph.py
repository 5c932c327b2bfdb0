"""Pictures of a cluster: one node for each broker, and an edge for each link."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.cli.cluster.graph import draw_svg, draw_text
from mqbroker.cli.cluster.nodes import Link, Node, names_of
from tests.unit.cli.cluster.test_cluster import PLACES, SVG, A, B, C, link


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
