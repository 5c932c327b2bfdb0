"""Exports and imports from files to databases and back: nothing but ids changes."""

from __future__ import annotations

import re
import tempfile
import unittest
import xml.etree.ElementTree as ElementTree
from base64 import urlsafe_b64decode, urlsafe_b64encode
from pathlib import Path

from tests.interop.instance import NOTHING, PASSWORD, USER, Additions
from tests.interop.mqbroker_process import MqbrokerProcess
from tests.support.postgresql import PostgresqlServer, programs
from tests.unit.cli.runner import mqbroker

LARGE = bytes(range(256)) * 2500
"""More than two pieces of a body in a database."""

BINDINGS = """<address-binding routing-types="ANYCAST" name="paged.q" id="1"/>
<address-binding routing-types="ANYCAST,MULTICAST" name="news" id="2"/>
<queue-binding address="paged.q" filter-string="" name="paged.q" id="3" routing-type="ANYCAST"/>
<queue-binding address="news" filter-string="color = 'r&amp;d'" name="s1" id="4" routing-type="MULTICAST"/>
<queue-binding address="news" filter-string="" name="s2" id="5" routing-type="MULTICAST"/>
"""


def message(number: int, queues: str, body: bytes, properties: str = "", large: bool = False) -> str:
    pieces = [body[at : at + 900] for at in range(0, len(body), 900)] if large else [body]
    text = "".join(f"<![CDATA[{urlsafe_b64encode(piece).decode()}]]>" for piece in pieces)
    held = "".join(f'<queue name="{each}"/>' for each in queues.split())
    return (
        f'<message id="{number}" priority="{number % 10}" expiration="0" timestamp="{1000 + number}" type="bytes">'
        f"<properties>{properties}</properties><queues>{held}</queues>"
        f'<body isLarge="{str(large).lower()}">{text}</body></message>'
    )


def source() -> str:
    """Far more than the limit of the address for its pages, so that some messages are in memory and some in pages."""
    properties = '<property name="a" value="1" type="integer"/><property name="b" value="_AMQ_NULL" type="bytes"/>'
    messages = [message(number, "paged.q", b"%d" % number * 100, properties) for number in range(10, 80)]
    messages.append(message(80, "s1 s2", b"both"))
    messages.append(message(81, "s2", LARGE, properties, large=True))
    return f"<activemq-journal><bindings>{BINDINGS}</bindings><messages>{''.join(messages)}</messages></activemq-journal>"


def comparable(text: str) -> list[tuple[object, ...]]:
    """An export without its ids; messages by their queues, and those of the same queues in their order."""
    root = ElementTree.fromstring(text)
    messages = sorted(root.iter("message"), key=lambda each: [str(queue.get("name")) for queue in each.iter("queue")])
    found: list[tuple[object, ...]] = []
    for entry in (*root.iterfind("bindings/*"), *(inner for each in messages for inner in each.iter())):
        attributes = tuple(sorted((name, value) for name, value in entry.attrib.items() if name != "id"))
        body: object = None
        if entry.tag == "body":
            body = b"".join(urlsafe_b64decode(piece) for piece in (entry.text or "").split())
        found.append((entry.tag, attributes, body))
    return found


class RoundTripTests(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory(prefix="mqbroker-round-trip-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def through(self, name: str, file: Path, url: str = "") -> Path:
        """Import into a new broker, and export from it when it has stopped."""
        store = f"<store><database-store><jdbc-connection-url>{url}</jdbc-connection-url></database-store></store>"
        broker = MqbrokerProcess(self.folder / name, Additions(core=store) if url else NOTHING)
        self.addCleanup(broker.kill)
        broker.start()
        result = mqbroker("data", "imp", "--input", str(file), "--url", broker.url, "--user", USER, "--password", PASSWORD)
        self.assertEqual(result.status, 0, result.err)
        refused = mqbroker("data", "exp", "--instance", str(self.folder / name))
        self.assertIn("another broker uses this folder", refused.err)
        broker.stop()
        exported = self.folder / f"{name}.xml"
        result = mqbroker("data", "exp", "--instance", str(self.folder / name), "--output", str(exported))
        self.assertEqual(result.status, 0, result.err)
        return exported

    def test_files_to_databases_and_back(self) -> None:
        first = self.folder / "first.xml"
        first.write_text(source())
        files = self.through("files", first)
        stores = [self.through("sqlite", files, "jdbc:sqlite:data/mq.db")]
        if programs() is not None:
            server = PostgresqlServer()
            self.addCleanup(server.close)
            url = f"jdbc:{server.database(timeout=20_000).name}?user=tests"
            stores.append(self.through("postgresql", stores[-1], url))
            named = mqbroker("data", "exp", "--jdbc-connection-url", url)
            self.assertEqual(named.out, stores[-1].read_text())
        stores.append(self.through("back", stores[-1]))
        wanted = comparable(files.read_text())
        self.assertEqual(len(re.findall("<message ", files.read_text())), 72)
        for found in stores:
            self.assertTrue(comparable(found.read_text()) == wanted, found)
