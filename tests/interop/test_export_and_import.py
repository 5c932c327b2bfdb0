"""Exports of the real broker come into ours, and ours into the real one, to the same queues."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

from mqclient.jms import ConnectionFactory
from tests.interop import instance
from tests.interop.artemis import ArtemisBroker, artemis_command, tool_environment
from tests.interop.mqbroker_process import ROOT, MqbrokerProcess
from tests.interop.peers import Peer


def held(export: Path) -> list[tuple[str, str, tuple[str, ...]]]:
    """Of each message of an export, in order: its number, its body, and its queues."""
    found = []
    for message in ElementTree.parse(export).iter("message"):
        properties = {entry.get("name"): entry.get("value") or "" for entry in message.iter("property")}
        assert not [name for name in properties if name is not None and "ROUTE_TO" in name]
        body = "".join("".join(entry.itertext()) for entry in message.iter("body"))
        found.append((properties["n"], re.sub(r"\s", "", body), tuple(sorted(str(entry.get("name")) for entry in message.iter("queue")))))
    return found


def ours(*arguments: str, folder: Path) -> None:
    path = os.pathsep.join(str(ROOT / part) for part in ("src", "clients/mqclient/src", "plugins"))
    command = [sys.executable, "-m", "mqbroker.cli", *arguments]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=60, check=False, cwd=folder, env=os.environ | {"PYTHONPATH": path}
    )
    assert done.returncode == 0, f"{command}\n{done.stdout[-3000:]}{done.stderr[-3000:]}"


def theirs(*arguments: str, folder: Path) -> None:
    command = artemis_command(*arguments)
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, cwd=folder, env=tool_environment())
    assert done.returncode == 0, f"{command}\n{done.stdout[-3000:]}{done.stderr[-3000:]}"


def fill(peer: Peer) -> None:
    """Three messages, each for other subscriptions of one topic, and one on a queue."""
    with ConnectionFactory(peer.url).create_connection(instance.USER, instance.PASSWORD) as connection:
        session = connection.create_session()
        topic, queue = session.create_topic("exported.news"), session.create_queue("exported.orders")
        for name, selector in (("all", None), ("red", "color = 'red'"), ("blue", "color = 'blue'")):
            session.create_shared_durable_consumer(topic, name, selector).close()
        for number, (target, color) in enumerate(((topic, "red"), (topic, "blue"), (topic, "green"), (queue, "red"))):
            message = session.create_text_message(f"text {number}")
            message.set_string_property("n", str(number))
            message.set_string_property("color", color)
            session.create_producer(target).send(message)


def folders(folder: Path) -> list[str]:
    data = folder / "data"
    return [
        *("--journal", str(data / "journal"), "--bindings", str(data / "bindings")),
        *("--large-messages", str(data / "large-messages"), "--paging", str(data / "paging")),
    ]


def test_there_and_back(tmp_path: Path) -> None:
    login = ("--user", instance.USER, "--password", instance.PASSWORD)
    artemis = ArtemisBroker(tmp_path / "artemis")
    artemis.start()
    try:
        fill(artemis)
    finally:
        artemis.stop()
    first, second, third = (tmp_path / f"{name}.xml" for name in ("first", "second", "third"))
    theirs("data", "exp", *folders(artemis.folder), "--output", str(first), folder=tmp_path)
    expected = held(first)
    assert [len(queues) for _, _, queues in expected] == [2, 2, 1, 1]

    mqbroker = MqbrokerProcess(tmp_path / "mqbroker")
    mqbroker.start()
    try:
        ours("data", "imp", "--input", str(first), "--url", mqbroker.url, *login, folder=tmp_path)
    finally:
        mqbroker.stop()
    ours("data", "exp", "--instance", str(mqbroker.folder), "--output", str(second), folder=tmp_path)
    assert held(second) == expected

    again = MqbrokerProcess(tmp_path / "again")
    again.start()
    try:
        theirs("data", "imp", "--input", str(second), "--url", again.url, *login, folder=tmp_path)
    finally:
        again.stop()
    ours("data", "exp", "--instance", str(again.folder), "--output", str(third), folder=tmp_path)
    assert held(third) == expected
