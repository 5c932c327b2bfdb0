"""What senders and receivers logged, judged without a look at the broker.

Producers send messages ``IN`` to one queue; transactors take each of them and send two messages ``IN/ATTEMPT/0`` and ``IN/ATTEMPT/1`` to a
second queue in the same transaction; consumers take those and acknowledge each. A line of a log is ``TIME VERB NAME``, TIME being the
monotonic clock of the machine in ns, the same for all processes:

=============  =================================================================
``try``        a producer is about to send (again, if the outcome was unknown)
``sent``       the broker has confirmed the send
``got``        a transactor or consumer was given the message
``commit``     a transactor is about to commit this attempt ``IN/ATTEMPT``
``committed``  the broker has confirmed the commit
``acked``      the broker has confirmed the acknowledgement of a consumer
``damaged``    the message that a transactor or consumer was given had another body than was sent
``settled``    a branch that was found prepared after a crash is committed or rolled back (only counted)
``large``      the send that was confirmed was that of a large message (only counted)
=============  =================================================================
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

PARTS = 2  # messages that a transactor makes of one
LARGE_EVERY = 8
LARGE_CHARACTERS = (120_000, 300_000)
"""One message in so many is a large message (above 100 KiB), of a size between these."""


def is_large(name: str) -> bool:
    return zlib.crc32(name.encode()) % LARGE_EVERY == 0


def body_of(name: str) -> str:
    """The body that the message of this name has, small or large: its name, and what follows from it."""
    checksum = zlib.crc32(name.encode())
    least, most = LARGE_CHARACTERS
    size = least + checksum % (most - least) if is_large(name) else checksum % 500
    pattern = f"|{checksum:08x}"
    return name + (pattern * (size // len(pattern) + 1))


def name_in(body: str) -> str:
    return body.split("|", 1)[0]


class Event(NamedTuple):
    time: int
    verb: str
    name: str


def read_logs(paths: Iterable[Path]) -> list[Event]:
    """All events in order of time. A last line without its end (the writer was stopped in it) is left out."""
    events = []
    for path in paths:
        for line in path.read_text().splitlines(keepends=True):
            if line.endswith("\n"):
                time, verb, name = line.split()
                events.append(Event(int(time), verb, name))
    return sorted(events)


def misdelivered(events: Iterable[Event]) -> list[str]:
    """Messages that came again after the broker had confirmed that they were done with, or came damaged."""
    done: dict[str, str] = {}
    found = []
    for event in events:
        if event.verb == "committed":
            done[event.name.split("/")[0]] = "commit"
        elif event.verb == "acked":
            done[event.name] = "acknowledgement"
        elif event.verb == "got" and event.name in done:
            found.append(f"{event.name} came again after its confirmed {done[event.name]}")
        elif event.verb == "damaged":
            found.append(f"{event.name} came with another body than it was sent with")
    return found


def judge(events: list[Event]) -> list[str]:
    """All violations, each as a sentence; none when every confirmed send and acknowledgement was kept, exactly once."""
    names: dict[str, set[str]] = {verb: set() for verb in ("try", "sent", "got", "commit", "committed")}
    for event in events:
        if event.verb in names:
            names[event.verb].add(event.name)
    problems = misdelivered(events)
    outcomes: dict[str, set[str]] = {}
    for name in sorted(names["got"]):
        parts = name.split("/")
        if parts[0] not in names["try"]:
            problems.append(f"{name} was received, nobody sent it")
        if len(parts) == 3:
            attempt = "/".join(parts[:2])
            outcomes.setdefault(parts[0], set()).add(attempt)
            if attempt not in names["commit"]:
                problems.append(f"{name} was received, its transaction was never committed")
    committed: dict[str, set[str]] = {}
    for name in names["committed"]:
        committed.setdefault(name.split("/")[0], set()).add(name)
    for sent in sorted(names["sent"] | outcomes.keys()):
        problems += judge_outcome(sent, outcomes.get(sent, set()), committed.get(sent, set()), names["got"])
    return problems


def judge_outcome(sent: str, attempts: set[str], committed: set[str], got: set[str]) -> list[str]:
    """One message must have led to exactly one transaction, and that one to all of its messages."""
    if not attempts:
        return [f"{sent} was confirmed and is lost"]
    if len(attempts) > 1:
        return [f"{sent} was processed more than once: {', '.join(sorted(attempts))}"]
    attempt = next(iter(attempts))
    problems = [f"{attempt} was committed in part: {part} is missing" for part in made_of(attempt) if part not in got]
    problems += [f"{name} was confirmed, but what came out is {attempt}" for name in sorted(committed - attempts)]
    return problems


def made_of(attempt: str) -> list[str]:
    return [f"{attempt}/{part}" for part in range(PARTS)]
