"""The queue and address commands of the real distribution print the same with mqbroker as with Artemis, in success and in failure."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator

import pytest

from mqclient.jms import ConnectionFactory
from tests.interop import instance
from tests.interop.artemis import ArtemisBroker, artemis_command, tool_environment
from tests.interop.mqbroker_process import MqbrokerProcess
from tests.interop.peers import Peer

MADE = "--durable --auto-create-address --preserve-on-no-consumers"
PLAIN = "--no-durable --preserve-on-no-consumers"
COMMANDS = f"""\
queue create --name t.one --anycast {MADE}
queue create --name t.one --anycast {MADE}
queue create --name t.one --address t.other --multicast {MADE}
queue create --name t.two --address t.one --multicast {PLAIN}
queue create --name t.two --address t.one --multicast {MADE} --max-consumers 3 --filter color='red'
queue create --name t.three --address t.missing --anycast {PLAIN}
queue create --name interop.closed.made --anycast {MADE}
queue update --name t.one --max-consumers 5 --purge-on-no-consumers
queue update --name t.one --anycast --max-consumers 5 --purge-on-no-consumers
queue update --name t.one --anycast
queue update --name t.missing --max-consumers 5
queue update --name interop.closed.made --multicast
queue purge --name t.one
queue purge --name t.missing
queue delete --name t.missing
queue delete --name t.missing --removeConsumers --autoDeleteAddress
queue delete --name t.two
queue update --name t.held --anycast --max-consumers 0
queue delete --name t.held
queue delete --name t.held --removeConsumers
address create --name t.made --anycast --no-multicast
address create --name t.made --anycast --no-multicast
address create --name t.both --anycast --multicast
address update --name t.made --anycast --multicast
address update --name t.made --no-anycast --multicast
address update --name t.missing --anycast --multicast
address update --name t.one --no-anycast --multicast
address show --name t.made
address show --name t.both
address show --name t.one
address show --name t.missing
address show --bindings --name t.missing
address delete --name t.missing
address delete --name t.one
address delete --name t.one --force
address delete --name t.made
address delete --name t.both
queue delete --name interop.closed.made --autoDeleteAddress
address show --name interop.closed.made
"""
PROMPT = re.compile(r"^(?:admin@\S+|Apache ActiveMQ Artemis \S+) > ")
NO_SCREEN = ("org.jline", "Unable to create a system terminal")


@pytest.fixture(scope="module")
def brokers(java: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Peer, Peer]]:
    folder = tmp_path_factory.mktemp("texts")
    pair = (MqbrokerProcess(folder / "mqbroker"), ArtemisBroker(folder / "artemis"))
    try:
        for broker in pair:
            broker.start()
        yield pair
    finally:
        for broker in pair:
            broker.stop()


def login(broker: Peer) -> str:
    return f"--url {broker.url} --user {instance.USER} --password {instance.PASSWORD}"


def told(broker: Peer, text: str) -> list[str]:
    """The lines of a command's output, without what differs by nature: where the broker is, and the class that counts consumers."""
    lines = [PROMPT.sub("", line).replace(broker.url, "URL") for line in text.splitlines()]
    return [re.sub(r"it has consumers = .*", "it has consumers", line) for line in lines if not any(word in line for word in NO_SCREEN)]


def printed(broker: Peer) -> tuple[list[str], list[str]]:
    """What one shell of the distribution prints for the commands, while ``t.held`` has a consumer: its output and its errors."""
    lines = "".join(f"{line} --silent {login(broker)}\n" for line in COMMANDS.splitlines())
    with (
        ConnectionFactory(broker.url, user=instance.USER, password=instance.PASSWORD) as factory,
        factory.create_context() as context,
        context.create_consumer(context.create_queue("t.held")),
    ):
        done = subprocess.run(
            artemis_command("shell", *login(broker).split()),
            input=f"{lines}exit\n",
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
            env=tool_environment(),
        )
    return told(broker, done.stdout), told(broker, done.stderr)


def test_the_commands_print_the_same(brokers: tuple[Peer, Peer]) -> None:
    (ours, our_errors), (theirs, their_errors) = map(printed, brokers)
    assert any("Queue [name=t.one, address=t.one" in line and line.endswith("created successfully.") for line in theirs)
    assert len(their_errors) > 10, their_errors
    assert our_errors == their_errors
    assert ours == theirs


@pytest.mark.parametrize(
    "arguments",
    [
        f"queue create --name t.status --anycast {MADE}",
        f"queue create --name t.status --anycast {MADE}",
        "queue delete --name t.nothing",
        "queue delete --name t.status",
    ],
    ids=["made", "made-again", "nothing-to-delete", "deleted"],
)
def test_a_command_ends_with_the_same_status(brokers: tuple[Peer, Peer], arguments: str) -> None:
    ends = []
    for broker in brokers:
        command = artemis_command(*arguments.split(), "--silent", *login(broker).split())
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=tool_environment())
        ends.append((done.returncode, told(broker, done.stdout), told(broker, done.stderr)))
    assert ends[0] == ends[1]


def printed_by(start: list[str], broker: Peer, name: str) -> list[str]:
    """The lines of some commands about the queue ``name``, which is not told, by the program that ``start`` starts."""
    making = f"queue create --name {name} --address t.own --anycast {MADE} --max-consumers 4"
    lines = []
    for arguments in (making, making, f"queue update --name {name} --anycast --max-consumers 3", "queue update --name t.none --anycast"):
        command = [*start, *arguments.split(), "--silent", *login(broker).split()]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=tool_environment())
        lines += [line.replace(name, "NAME") for line in told(broker, done.stdout + done.stderr)]
    return [line for line in lines if not line.startswith("Connection brokerURL")]


def test_the_command_of_mqbroker_prints_the_same_lines(brokers: tuple[Peer, Peer]) -> None:
    for broker in brokers:
        theirs = printed_by(artemis_command(), broker, "t.own.theirs")
        assert len(theirs) == 4, theirs
        assert printed_by([sys.executable, "-m", "mqbroker.cli"], broker, "t.own.ours") == theirs
