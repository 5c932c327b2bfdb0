"""``mqbroker cluster``: members, links, and the messages that wait for members."""

from __future__ import annotations

import math
import shutil
import sys
import time
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from itertools import accumulate
from pathlib import Path
from typing import Final

import click

from mqbroker.cli.cluster.graph import LINKS_NOT_KNOWN, draw_svg, draw_text
from mqbroker.cli.cluster.nodes import Link, Node, ask_all, ask_node, names_of
from mqbroker.cli.management import management
from mqbroker.cli.options import JSON, ConnectionOptions, connection_options
from mqbroker.cli.output import print_json, table
from mqbroker.cli.status import BadUsage, CommandError

_CLEAR: Final = "\x1b[H\x1b[2J"
_STDOUT: Final = "-"
_LINKS: Final = (
    *("TO_NODE", "STATE", "TARGET", "BACKLOG", "FORWARDED", "ACKED", "PENDING", "CREDITS", "BINDINGS", "RETRIES"),
    *("SINCE", "LAST_ERROR"),
)
_BINDINGS: Final = ("QUEUE", "ADDRESS", "NODE", "HOPS", "CONSUMERS", "FILTER", "CONNECTED", "IN_USE")


@click.command(epilog="Example: mqbroker cluster --all --graph cluster.svg")
@click.option("--all", "everybody", is_flag=True, help="Ask every member, not only the broker of the connection.")
@click.option(
    "--graph",
    is_flag=False,
    flag_value=_STDOUT,
    metavar="[FILE]",
    help="Draw all members and their links: as SVG into FILE.svg, as text into another file or, without one, on the terminal.",
)
@click.option(
    "--maxRows", "max_rows", type=click.IntRange(0), default=50, show_default=True, help="Maximum number of remote bindings to show."
)
@click.option(
    "--maxColumnSize", "max_width", type=int, default=40, show_default=True, help="Maximum width of a column, in characters; -1: no limit."
)
@click.option("--watch", is_flag=True, help="Repeat the output until Ctrl-C.")
@click.option("--sleep", type=click.IntRange(1), default=2_000, show_default=True, help="Milliseconds between two rounds of --watch.")
@JSON
@connection_options
def cluster(
    connection: ConnectionOptions,
    everybody: bool,
    graph: str | None,
    max_rows: int,
    max_width: int,
    watch: bool,
    sleep: int,
    as_json: bool,
) -> None:
    """Show the cluster of a broker: its members, the links and the messages that wait for them, and the queues of other members.

    BACKLOG: messages that wait for the member, including those on their way to it (PENDING). CREDITS: bytes that may still be sent to the
    member, for the address that has the fewest left. BINDINGS: queues of the member that are known here. SINCE: when the link was lost.
    """
    if graph is not None and as_json:
        raise BadUsage("either --graph or --json")
    connection.quiet = as_json or graph is not None or watch
    with management(connection) as broker:
        while True:
            nodes = ask_all(connection, broker, management) if everybody or graph is not None else [ask_node(broker, broker.reply_queue)]
            if as_json:
                print_json([node.as_json() for node in nodes])
            elif graph is not None and graph != _STDOUT:
                _draw(nodes, Path(graph))
            else:
                text = draw_text(nodes) if graph is not None else "\n\n".join(_shown(node, nodes, max_rows, max_width) for node in nodes)
                click.echo(_CLEAR + fit(text, *shutil.get_terminal_size()) if watch and sys.stdout.isatty() else text)
            if not watch:
                return
            time.sleep(sleep / 1000)


def fit(text: str, columns: int, rows: int) -> str:
    """The beginning of ``text`` that a terminal of this size shows without scrolling, and how much is left out."""
    lines = text.split("\n")
    room = rows - 1  # the cursor is in the line below
    heights = list(accumulate(max(1, math.ceil(len(line) / columns)) for line in lines))
    if heights[-1] <= room:
        return text
    shown = bisect_right(heights, room - 1)
    return "\n".join([*lines[:shown], f"… {len(lines) - shown} more lines: enlarge the window, or take --maxRows 0 or --graph"])


def _draw(nodes: list[Node], file: Path) -> None:
    try:
        file.write_text(draw_svg(nodes) if file.suffix.lower() == ".svg" else draw_text(nodes) + "\n", encoding="utf-8")
    except OSError as error:
        raise CommandError(f"cannot write {file}: {error.strerror or error}") from error


def _shown(node: Node, nodes: Sequence[Node], max_rows: int, max_width: int) -> str:
    if node.error is not None:
        return f"Node {node.node_id} at {node.place} is not reached: {node.error}"
    parts = [f"Node {node.name} ({node.node_id})" + (f" at {node.place}" if node.place else "")]
    if not node.members:
        return f"{parts[0]} is in no cluster"
    if not node.links_known:
        parts[0] += f": {LINKS_NOT_KNOWN}"
    names = {each: name for each, name in names_of(nodes).items() if any(known.node_id == each for known in nodes)}
    unlinked = "none" if node.links_known else "not known"
    parts += [f"WARNING: another broker has the same node id, at {place}" for place in node.twins]
    states = {link.node_id: link.state for link in node.links}
    members = [
        (
            names.get(str(member.get("nodeID")), ""),
            str(member.get("nodeID")),
            str(member.get("primary", "")),
            str(member.get("backup", "")),
            "this broker" if member.get("nodeID") == node.node_id else states.get(str(member.get("nodeID")), unlinked),
        )
        for member in node.members
    ]
    parts.append(table(("NODE", "NODE_ID", "PRIMARY", "BACKUP", "LINK"), members, max_width=max_width, one_line_header=True))
    if node.links:
        parts.append(table(_LINKS, (_link_row(link, names) for link in node.links), max_width=max_width, left=3))
    if node.bindings and max_rows:
        found = [
            (
                *(str(row[key]) for key in ("name", "address")),
                names.get(str(row["nodeID"]), str(row["nodeID"])),
                *(str(row[key]) for key in ("distance", "consumerCount")),
                str(row["filter"] or ""),
                str(row["connected"]),
                str(row["inUse"]),
            )
            for row in node.bindings[:max_rows]
        ]
        parts.append(table(_BINDINGS, found, max_width=max_width))
        if len(node.bindings) > max_rows:
            parts.append(f"WARNING: the displayed remote bindings are {max_rows}/{len(node.bindings)}, set maxRows to display more.")
    return "\n".join(parts)


def _link_row(link: Link, names: Mapping[str, str]) -> tuple[str, ...]:
    values = link.values
    credits, since = link.credits, values.get("since")
    return (
        names.get(link.node_id, link.node_id),
        link.state if link.values.get("link") != "paused" else "paused",
        str(values.get("target") or ""),
        *(str(values.get(key, "")) for key in ("backlog", "messagesForwarded", "messagesAcknowledged", "messagesPending")),
        "" if credits is None else str(credits),
        str(values.get("remoteBindings", "")),
        str(values.get("retries", "")),
        "" if since is None else datetime.fromtimestamp(int(since) / 1000, UTC).astimezone().strftime("%Y-%m-%d %H:%M:%S"),
        str(values.get("lastError") or ""),
    )
