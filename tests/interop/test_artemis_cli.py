"""The command line of the real distribution: producer, consumer, browser and queue commands."""

from __future__ import annotations

import subprocess

import pytest

from tests.interop import instance
from tests.interop.artemis import artemis_command, tool_environment
from tests.interop.peers import Peer


def run(peer: Peer, *arguments: str) -> str:
    """Output of one command of the real distribution against the peer; fails the test on a non-zero exit status."""
    command = artemis_command(*arguments, "--url", peer.url, "--user", instance.USER, "--password", instance.PASSWORD, "--silent")
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=tool_environment())
    assert done.returncode == 0, f"{command}\n{done.stdout[-3000:]}{done.stderr[-3000:]}"
    return done.stdout + done.stderr


def statistics(peer: Peer, queue: str) -> dict[str, str]:
    """The line of `artemis queue stat` about one queue, by its column titles (which take two lines)."""
    lines = [
        line.strip().strip("|").split("|") for line in run(peer, "queue", "stat", "--queueName", queue).splitlines() if line.startswith("|")
    ]
    titles = [" ".join(f"{upper.strip()} {lower.strip()}".split()) for upper, lower in zip(lines[0], lines[1], strict=True)]
    for cells in lines[2:]:
        row = dict(zip(titles, (cell.strip() for cell in cells), strict=True))
        if row["NAME"] == queue:
            return row
    raise AssertionError(f"no line about {queue} in {lines}")


def test_produce_browse_stat_consume(peer: Peer) -> None:
    destination = "queue://cli.orders"
    produced = run(peer, "producer", "--destination", destination, "--message-count", "30", "--message-size", "200")
    assert "Produced: 30 messages" in produced
    browsed = run(peer, "browser", "--destination", destination, "--message-count", "30")
    assert "browsed: 30 messages" in browsed
    row = statistics(peer, "cli.orders")
    assert (row["ADDRESS"], row["MESSAGE COUNT"], row["MESSAGES ADDED"], row["ROUTING TYPE"]) == ("cli.orders", "30", "30", "ANYCAST")
    consumed = run(peer, "consumer", "--destination", destination, "--message-count", "30")
    assert "Consumed: 30 messages" in consumed
    row = statistics(peer, "cli.orders")
    assert (row["MESSAGE COUNT"], row["MESSAGES ACKED"]) == ("0", "30")


@pytest.mark.parametrize("options", [("--object-size", "100"), ("--message-size", "250000")])
def test_kinds_of_message(peer: Peer, options: tuple[str, str]) -> None:
    destination = f"queue://cli.kind.{options[0].strip('-')}.{options[1]}"
    assert "Produced: 2 messages" in run(peer, "producer", "--destination", destination, "--message-count", "2", *options)
    assert "Consumed: 2 messages" in run(peer, "consumer", "--destination", destination, "--message-count", "2")


def test_transacted_with_selector(peer: Peer) -> None:
    destination = "queue://cli.transacted"
    run(peer, "producer", "--destination", destination, "--message-count", "20", "--commit-interval", "10", "--non-persistent")
    consumed = run(
        peer, "consumer", "--destination", destination, "--message-count", "20", "--commit-interval", "5", "--filter", "count < 100"
    )
    assert "Consumed: 20 messages" in consumed


def test_create_purge_delete_queue(peer: Peer) -> None:
    create = (
        "--name",
        "cli.made",
        "--address",
        "cli.made",
        "--anycast",
        "--durable",
        "--auto-create-address",
        "--preserve-on-no-consumers",
    )
    run(peer, "queue", "create", *create)
    run(peer, "producer", "--destination", "queue://cli.made", "--message-count", "3")
    assert statistics(peer, "cli.made")["MESSAGE COUNT"] == "3"
    run(peer, "queue", "purge", "--name", "cli.made")
    assert statistics(peer, "cli.made")["MESSAGE COUNT"] == "0"
    assert "cli.made" in run(peer, "address", "show")
    run(peer, "queue", "delete", "--name", "cli.made")
    with pytest.raises(AssertionError):
        statistics(peer, "cli.made")


def test_wrong_password_is_told(peer: Peer) -> None:
    command = artemis_command(
        "producer", "--url", peer.url, "--user", instance.USER, "--password", "wrong", "--silent", "--message-count", "1"
    )
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=tool_environment())
    assert done.returncode != 0
    assert "AMQ229031" in done.stdout + done.stderr
