"""What the mixed clients of a soak run logged, judged without a look at the broker."""

from __future__ import annotations

from collections.abc import Iterable

from tests.integration.kill.verdict import Event

KINDS = 3
SUBSCRIPTIONS = 2


def kind_of(name: str) -> int:
    """The kind of a message follows from its number, the last part of its name."""
    return int(name.rsplit("-", 1)[1]) % KINDS


def receivers_of(name: str) -> list[str]:
    """Who has to get a message: every subscription what was published (`t…`), one filtering consumer what was sent to the queue (`k…`)."""
    if name.startswith("t"):
        return [f"s{number}" for number in range(SUBSCRIPTIONS)]
    return [f"f{kind_of(name)}"]


def judge_deliveries(events: Iterable[Event]) -> list[str]:
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


def judge_activity(counts: dict[str, int]) -> list[str]:
    """What must have happened at all, so that silence is not taken for health."""
    wanted = {"sent": "messages", "acked": "acknowledgements", "answered": "replies", "visited": "visits", "managed": "management calls"}
    problems = [f"there were no {what}" for verb, what in wanted.items() if not counts.get(verb)]
    asked, answered = counts.get("asked", 0), counts.get("answered", 0)
    if answered < asked / 2:
        problems.append(f"of {asked} requests only {answered} were answered")
    return problems
