"""A picture of a cluster: members, links with their direction, state and backlog; as text and as SVG."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final
from xml.sax.saxutils import escape, quoteattr

from mqbroker.cli.cluster.nodes import Link, Node, names_of

LINKS_NOT_KNOWN: Final = "an Artemis: its links are not known"
_COLOURS: Final = {"connected": "#2e7d32", "connecting": "#ef6c00", "disconnected": "#c62828"}
_OTHER: Final = "#757575"
_BOX_WIDTH: Final = 190
_BOX_HEIGHT: Final = 64
_APART: Final = 14
"""Half the distance of the two links between two nodes."""


def draw_text(nodes: Sequence[Node]) -> str:
    """One block for each member, with an arrow for each of its links."""
    names = names_of(nodes)
    lines: list[str] = []
    for node in nodes:
        lines.append(f"[{names[node.node_id]}] {node.place}".rstrip())
        if node.error is not None:
            lines.append(f"   not reached: {node.error}")
        if not node.links_known:
            lines.append(f"   {LINKS_NOT_KNOWN}")
        lines += [f"   same node id as the broker at {place}" for place in node.twins]
        for link in node.links:
            arrow = "──▶" if link.state == "connected" else "─╳▶"
            lines.append(f"   {arrow} [{names[link.node_id]}] {_label(link)}")
    return "\n".join(lines)


def _label(link: Link) -> str:
    return f"{link.state}, backlog {link.backlog}"


def draw_svg(nodes: Sequence[Node]) -> str:
    """Members on a circle.  A member that was not reached is grey; links are coloured by their state, with the backlog beside them."""
    names = names_of(nodes)
    known = {node.node_id: node for node in nodes}
    radius = max(150.0, len(names) * 260 / (2 * math.pi)) if len(names) > 1 else 0.0
    width, height = 2 * radius + _BOX_WIDTH + 120, 2 * radius + _BOX_HEIGHT + 120
    places = {
        node_id: (
            width / 2 + radius * math.sin(2 * math.pi * number / len(names)),
            height / 2 - radius * math.cos(2 * math.pi * number / len(names)),
        )
        for number, node_id in enumerate(names)
    }
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" font-family="sans-serif" font-size="12">',
        "<defs>",
        *(
            f'<marker id="{name}" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="8" markerHeight="8" orient="auto">'
            f'<path d="M0 0 L10 5 L0 10 z" fill="{colour}"/></marker>'
            for name, colour in (*_COLOURS.items(), ("other", _OTHER))
        ),
        "</defs>",
        f'<rect width="{width:.0f}" height="{height:.0f}" fill="white"/>',
    ]
    for node in nodes:
        parts += [_arrow(link, names[node.node_id], names[link.node_id], places[node.node_id], places[link.node_id]) for link in node.links]
    for node_id, name in names.items():
        parts.append(_box(known.get(node_id), node_id, name, *places[node_id]))
    return "\n".join([*parts, "</svg>\n"])


def _box(node: Node | None, node_id: str, name: str, x: float, y: float) -> str:
    reached = node is not None and node.error is None
    fill, stroke = ("#e3f2fd", "#1565c0") if reached else ("#eeeeee", _OTHER)
    if node is not None and node.twins:
        fill, stroke = "#ffebee", "#c62828"
    last = "another broker has this node id" if node is not None and node.twins else _short(node_id, name) if reached else "not reached"
    if node is not None and not node.links_known:
        last = LINKS_NOT_KNOWN
    texts = (name, "" if node is None else node.place, last)
    lines = "".join(
        f'<text x="{x:.1f}" y="{y - 14 + 18 * number:.1f}" text-anchor="middle"{weight}>{escape(text)}</text>'
        for number, (text, weight) in enumerate(zip(texts, (' font-weight="bold"', "", ""), strict=True))
    )
    return (
        f'<g data-node={quoteattr(node_id)}><rect x="{x - _BOX_WIDTH / 2:.1f}" y="{y - _BOX_HEIGHT / 2:.1f}" width="{_BOX_WIDTH}" '
        f'height="{_BOX_HEIGHT}" rx="8" fill="{fill}" stroke="{stroke}"/>{lines}</g>'
    )


def _short(node_id: str, name: str) -> str:
    """The beginning of a node id, unless the name of the member is that already."""
    return "" if node_id[:8] in name else node_id[:8]


def _arrow(link: Link, source: str, target: str, start: tuple[float, float], end: tuple[float, float]) -> str:
    """From the edge of one box to the edge of the other, beside the link that comes back."""
    dx, dy = end[0] - start[0], end[1] - start[1]
    length = math.hypot(dx, dy) or 1.0
    ux, uy = dx / length, dy / length
    shift_x, shift_y = -uy * _APART, ux * _APART
    out, back = _to_edge(shift_x, shift_y, ux, uy), _to_edge(shift_x, shift_y, -ux, -uy)
    x1, y1 = start[0] + shift_x + ux * out, start[1] + shift_y + uy * out
    x2, y2 = end[0] + shift_x - ux * back, end[1] + shift_y - uy * back
    kind = link.state if link.state in _COLOURS else "other"
    colour = _COLOURS.get(link.state, _OTHER)
    dashes = "" if link.state == "connected" else ' stroke-dasharray="6 4"'
    text_x, text_y = x1 + (x2 - x1) * 0.4 + shift_x * 0.6, y1 + (y2 - y1) * 0.4 + shift_y * 0.6
    label = str(link.backlog) if link.state == "connected" else _label(link)
    return (
        f"<g data-link={quoteattr(f'{source} {target}')}><title>{escape(f'{source} to {target}: {_label(link)}')}</title>"
        f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}" stroke-width="2"{dashes} '
        f'marker-end="url(#{kind})"/>'
        f'<text x="{text_x:.1f}" y="{text_y + 4:.1f}" text-anchor="middle" fill="{colour}">{escape(label)}</text></g>'
    )


def _to_edge(x: float, y: float, ux: float, uy: float) -> float:
    """The distance from a point within a box, given from its middle, to the edge, in a direction of length 1."""
    return min(
        (half - place * math.copysign(1, part)) / abs(part) if abs(part) > 1e-9 else math.inf
        for half, place, part in ((_BOX_WIDTH / 2, x, ux), (_BOX_HEIGHT / 2, y, uy))
    )
