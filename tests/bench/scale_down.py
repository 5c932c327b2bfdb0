"""`python -m tests.bench.scale_down`: a broker that leaves gives many messages to another one; how fast, and with how much memory.

Two broker processes of one cluster on loopback.  The first gets the messages and a SIGTERM; the second must have all of them afterwards, in
their order.  Resident memory of both is read while the messages move.  `--paged` says at which of them the address pages.
"""

from __future__ import annotations

import argparse
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mqclient.core.api import QueueConfiguration
from mqclient.core.message import ClientMessage
from mqclient.core.session.session import Session
from mqclient.sockets import SocketRuntime, server_locator
from mqclient.wire.message import KEY_ROUTING_TYPE, CoreMessage, encode_message
from mqclient.wire.properties import BYTE, LONG, STRING
from tests.bench.brokers import PeakMemory, Usage, usage
from tests.integration.brokers import Broker
from tests.integration.cluster.processes import CONFIGURATION
from tests.interop.processes import free_port

SCALE_DOWN = """<ha-policy><primary-only><scale-down>
<connectors><connector-ref>other</connector-ref></connectors>
</scale-down></primary-only></ha-policy>
"""
SETTINGS = """<address-settings><address-setting match="moved">
<address-full-policy>PAGE</address-full-policy><max-size-bytes>{limit}</max-size-bytes>
</address-setting></address-settings>
"""
PAGED_LIMIT = 20 * 1024 * 1024
PAGED = {"both": (True, True), "source": (True, False), "target": (False, True), "neither": (False, False)}
QUEUE = "moved"
BATCH = 200
OPEN_BATCHES_MAX = 20
MARK = b"%010d"
TOLD = re.compile(r"scale-down to \S+: (\d+) messages of .* in ([0-9.]+) s; (.*)")
SECONDS_MAX = 1800
SILENCE_SECONDS = 30


class Pair:
    """The broker that leaves, and the other one."""

    def __init__(self, folder: Path, paged: tuple[bool, bool]) -> None:
        self.folder = folder
        self.runtime = SocketRuntime()
        ports = [free_port(), free_port()]
        self.urls = [f"tcp://127.0.0.1:{port}?useTopologyForLoadBalancing=false" for port in ports]
        self.brokers: list[Broker] = []
        for number, port in enumerate(ports):
            own = folder / f"node-{number}"
            own.mkdir()
            text = CONFIGURATION.format(own=number, folder=own / "data", port=port, other=ports[1 - number])
            added = SETTINGS.format(limit=PAGED_LIMIT if paged[number] else -1) + (SCALE_DOWN if number == 0 else "")
            (own / "broker.xml").write_text(text.replace("</core>", added + "</core>"))
            command = [sys.executable, "-c", "from twisted.scripts.twistd import run; run()", "-n", "--pidfile=", "mqbroker"]
            self.brokers.append(Broker([*command, "--config", str(own / "broker.xml")], own))
        self.processes: list[subprocess.Popen[bytes]] = [broker._process for broker in self.brokers]

    def usage(self) -> tuple[Usage, Usage]:
        return usage(self.processes[0].pid), usage(self.processes[1].pid)

    def session(self, number: int) -> Session:
        locator = server_locator(self.urls[number], runtime=self.runtime)
        factory = self.runtime.run(locator.create_session_factory(), 60)
        return self.runtime.run(factory.create_session(pre_acknowledge=True), 60)

    def close(self, session: Session) -> None:
        self.runtime.run(session.factory.close(), 60)

    def told(self, number: int) -> str:
        return (self.folder / f"node-{number}" / "output.log").read_text("utf-8", "replace")

    def stop(self) -> None:
        for broker in self.brokers:
            broker.stop()
        self.runtime.close()


def fill(pair: Pair, count: int, size: int) -> None:
    """So many durable messages, as a JMS client makes them."""
    session = pair.session(0)
    pair.runtime.run(session.create_queue(QueueConfiguration(name=QUEUE, routing_type=1)), 60)
    content = CoreMessage(address=QUEUE, durable=True, timestamp=1_700_000_000_000, body=(MARK % 0).ljust(size, b"x"))
    content.properties = {KEY_ROUTING_TYPE: (BYTE, 1), "kind": (STRING, "order"), "number": (LONG, 7)}
    encoded = encode_message(content)
    at = encoded.index(MARK % 0)
    before, after = encoded[:at], encoded[at + len(MARK % 0) :]
    sends = session.open_encoded_sends()
    open_batches = 0

    def done(batch: Any) -> None:
        nonlocal open_batches
        open_batches -= 1
        if batch.error is not None or batch.refused:
            sys.exit(f"the broker does not take the messages: {batch.error or batch.refused}")

    for start in range(0, count, BATCH):
        messages = [b"".join((before, MARK % number, after)) for number in range(start, min(start + BATCH, count))]
        session.send_batch(QUEUE, messages, done)
        open_batches += 1
        while not sends.room or open_batches > OPEN_BATCHES_MAX:
            pair.runtime.pump(0.001)
    while open_batches:
        pair.runtime.pump(0.001)
    pair.close(session)


def check(pair: Pair, count: int) -> None:
    """The second broker has each message once, in order."""
    session = pair.session(1)
    found = 0

    def take(message: ClientMessage) -> None:
        nonlocal found
        mark = message.plain_body()[: len(MARK % 0)]
        if mark != MARK % found:
            sys.exit(f"{mark!r} came instead of message {found}")
        found += 1

    async def begin() -> None:
        consumer = await session.create_consumer(QUEUE)
        consumer.set_message_handler(take)
        await session.start()

    pair.runtime.run(begin(), 60)
    last, since = 0, time.monotonic()
    while found < count:
        pair.runtime.pump(0.05)
        if found > last:
            last, since = found, time.monotonic()
        elif time.monotonic() - since > SILENCE_SECONDS:
            sys.exit(f"only {found} of {count} messages came")
    pair.runtime.pump(0.5)
    if found > count:
        sys.exit(f"there are more than {count} messages")
    pair.close(session)


def move(pair: Pair, count: int) -> str:
    """Stop the first broker; a row of figures."""
    before = pair.usage()
    with PeakMemory(pair.processes[0].pid) as source, PeakMemory(pair.processes[1].pid) as target:
        began = time.monotonic()
        pair.processes[0].send_signal(signal.SIGTERM)
        cpu = before[0].cpu_seconds
        while pair.processes[0].poll() is None:
            if time.monotonic() - began > SECONDS_MAX:
                sys.exit(f"not done after {SECONDS_MAX} s")
            try:
                cpu = usage(pair.processes[0].pid).cpu_seconds
            except (OSError, KeyError, IndexError):
                break
            time.sleep(0.2)
        pair.processes[0].wait(60)
        whole = time.monotonic() - began
    after = usage(pair.processes[1].pid)
    found = TOLD.search(pair.told(0))
    if found is None or int(found[1]) != count or found[3].strip() != "complete":
        sys.exit(f"not everything was moved: {found[0] if found else pair.told(0)[-1000:]}")
    seconds = float(found[2])
    return (
        f"{seconds:.1f} | {whole:.1f} | {count / seconds:,.0f} | {(cpu - before[0].cpu_seconds) / count * 1e6:.1f} | "
        f"{(after.cpu_seconds - before[1].cpu_seconds) / count * 1e6:.1f} | {before[0].resident_mib:.0f} → {source.mib:.0f} | "
        f"{before[1].resident_mib:.0f} → {target.mib:.0f} |"
    )


def run(count: int, size: int, paged: str, parent: Path | None, checked: bool) -> str:
    folder = Path(tempfile.mkdtemp(prefix="scale-down-", dir=parent))
    pair = Pair(folder, PAGED[paged])
    try:
        fill(pair, count, size)
        row = f"| {count:,} x {size} B | {paged} | {move(pair, count)}"
        if checked:
            check(pair, count)
        return row
    finally:
        pair.stop()
        shutil.rmtree(folder, ignore_errors=True)


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench.scale_down", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--size", type=int, action="append", help="bytes of the body, 10 at least (may be repeated; default 100 and 1024)")
    parser.add_argument("--paged", choices=PAGED, action="append", help="may be repeated; default: both")
    parser.add_argument("--unchecked", action="store_true", help="do not receive the messages at the end, which takes long")
    parser.add_argument("--folder", type=Path, help="where the data goes; default: a temporary folder")
    options = parser.parse_args(arguments)
    print("| messages | paged | moving, s | signal to end, s | messages/s | source, µs CPU | target, µs CPU | source, MiB | target, MiB |")
    print("|---|---|---:|---:|---:|---:|---:|---:|---:|", flush=True)
    for size in options.size or (100, 1024):
        for paged in options.paged or ("both",):
            print(run(options.messages, size, paged, options.folder, not options.unchecked), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
