"""The logs of clients of a pair: as with one broker, but for what a former active broker delivers before it has noticed.

Such a broker has stood still, or was cut off, and delivers from its memory once more; nothing that a client answers to it is confirmed.
The rounds write ``suspected`` and ``steady`` into the logs: between them there may be one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tests.integration.kill.verdict import Event, judge

SUSPECTED, SETTLED = "suspected", "steady"
UNDONE = "undone"
"""Of a transaction with ``exactlyOnce`` that was rolled back for certain: it is run again."""


def judge_pair(judge: Callable[[list[Event]], list[str]], events: Sequence[Event]) -> list[str]:
    """All violations that ``judge`` finds; and what was acknowledged twice, with a confirmation of each."""
    problems = []
    acknowledged: set[str] = set()
    done: set[str] = set()
    counted = []
    suspected = False
    for event in events:
        if event.verb in (SUSPECTED, SETTLED):
            suspected = event.verb == SUSPECTED
        elif event.verb == "got" and suspected and event.name in done:
            continue
        elif event.verb == "acked":
            if event.name in acknowledged:
                problems.append(f"{event.name} was acknowledged twice, and both times that was confirmed")
            acknowledged.add(event.name)
            done.add(event.name)
        elif event.verb == "committed":
            done.add(event.name.split("/")[0])
        counted.append(event)
    return problems + judge(counted)


def judge_batches(events: list[Event]) -> list[str]:
    """As :func:`tests.integration.kill.verdict.judge`, of transactions with several messages of the same attempt: all of them or none."""
    came = {"/".join(event.name.split("/")[:2]) for event in events if event.verb == "got"}
    batches: dict[str, set[str]] = {}
    for event in events:
        if event.verb == "commit":
            batches.setdefault(event.name.split("/")[1], set()).add(event.name)
    problems = []
    for attempt, names in sorted(batches.items()):
        missing = sorted(names - came)
        if missing and len(missing) < len(names):
            problems.append(f"the transaction {attempt} was committed in part: {', '.join(missing)} missing")
    return problems + judge(events)


def judge_once(events: list[Event]) -> list[str]:
    """As :func:`tests.integration.kill.verdict.judge`, of clients with ``exactlyOnce``: each commit has an outcome, and that is true."""
    begun, committed, undone = ({event.name for event in events if event.verb == verb} for verb in ("commit", "committed", UNDONE))
    came = {"/".join(event.name.split("/")[:2]) for event in events if event.verb == "got"}
    problems = [f"the outcome of {attempt} was never told" for attempt in sorted(begun - committed - undone)]
    problems += [f"{attempt} was rolled back, and has taken effect" for attempt in sorted(undone & (came | committed))]
    return problems + judge(events)
