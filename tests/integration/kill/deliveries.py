"""What was sent to whom, judged by the logs of clients that write the receiver before the name (`s0>t1-17`), without a look at the broker.

A message's name ends in its number among those of its producer. `commit` is only counted here: `sent` and `acked` of a transaction are
written when its commit was confirmed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from tests.integration.kill.verdict import Event

BATCH = 8  # messages of a sending transaction, with numbers in a row


def judge_deliveries(events: Iterable[Event], receivers_of: Callable[[str], Sequence[str]]) -> list[str]:
    """All violations, each as a sentence: lost, from nowhere, for somebody else, damaged, overtaken, back after its acknowledgement."""
    tried: set[str] = set()
    sent: set[str] = set()
    got: set[str] = set()
    acknowledged: set[str] = set()
    latest: dict[tuple[str, str], int] = {}
    problems = []
    for event in events:
        receiver, _, name = event.name.rpartition(">")
        if event.verb == "try":
            tried.add(name)
        elif event.verb == "sent":
            sent.add(name)
        elif event.verb == "acked":
            acknowledged.add(event.name)
        elif event.verb == "damaged":
            problems.append(f"{event.name} came with another body than it was sent with")
        elif event.verb == "got":
            if name not in tried:
                problems.append(f"{event.name} was received, nobody sent it")
                continue
            if receiver not in receivers_of(name):
                problems.append(f"{event.name} was received by the wrong consumer")
            if event.name in acknowledged:
                problems.append(f"{event.name} came again after its confirmed acknowledgement")
            if event.name not in got:
                producer, _, number = name.rpartition("-")
                if int(number) < latest.get((receiver, producer), -1):
                    problems.append(f"{event.name} came first after {producer}-{latest[receiver, producer]}")
                latest[receiver, producer] = max(int(number), latest.get((receiver, producer), -1))
            got.add(event.name)
    for name in sorted(sent):
        problems += [f"{receiver}>{name} was confirmed and is lost" for receiver in receivers_of(name) if f"{receiver}>{name}" not in got]
    return problems


QUEUE_RECEIVER = "l0"
SUBSCRIBERS = ("l1", "l2")
TRANSACTED_PRODUCER = "h2"


def paged_receivers_of(name: str) -> Sequence[str]:
    """Who has to get a message of the paged addresses: `h0` sends to the queue, the other producers to the topic."""
    return (QUEUE_RECEIVER,) if name.startswith("h0-") else SUBSCRIBERS


def judge_paged(events: Sequence[Event]) -> list[str]:
    """As `judge_deliveries`; and every sending transaction has come out whole or not at all, for each subscription alike."""
    problems = judge_deliveries(events, paged_receivers_of)
    tried = {event.name for event in events if event.verb == "try" and event.name.startswith(f"{TRANSACTED_PRODUCER}-")}
    got = {event.name for event in events if event.verb == "got"}
    batches: dict[int, list[str]] = {}
    for name in sorted(tried):
        batches.setdefault(int(name.rpartition("-")[2]) // BATCH, []).append(name)
    for batch, names in sorted(batches.items()):
        expected = [f"{receiver}>{name}" for name in names for receiver in SUBSCRIBERS]
        missing = [name for name in expected if name not in got]
        if missing and len(missing) < len(expected):
            problems.append(f"transaction {batch} of {TRANSACTED_PRODUCER} came out in part: {', '.join(missing)} missing")
    return problems
