"""What differs between Open Message Queue and home brokers, with the reasons: tables of ``docs/imq.md``, one for each kind of cluster."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.interop.imq.clusters import VERSION
from tests.interop.imq.scenarios import Played
from tests.interop.imq.stage import Seen

PAGE = Path(__file__).resolve().parents[3] / "docs" / "imq.md"
_CLIENT = "the client library is that of Artemis; both refuse the acknowledgement, and the messages come again"
_ENDS = "a temporary destination is gone everywhere when nobody can read from it any more"
_ATTRIBUTES = "it cannot be kept, and is refused by name"
WHY: Mapping[str, str] = {
    "`create dst -o maxNumProducers=1`": "a CORE client gets no answer when it makes a producer",
    "`create dst -o maxBytesPerMsg=100`": _ATTRIBUTES,
    "`create dst -o isLocalOnly=true`": _ATTRIBUTES,
    "`create dst -o limitBehavior=REMOVE_OLDEST`": "messages never give way to others",
    "`destroy dur` of a subscription in use": "a subscriber does not lose its subscription while it reads",
    "sending to a temporary queue that has ended": "to a CORE client it is a name like others, and a queue is created automatically",
    "refusals, of three, that name the missing master": "who reads it knows which broker to start",
    "titles of `query bkr`": "logging is that of the process; dead messages are whole; no message is too large; the state is told",
    "the first changes at each broker after the database was away": "a connection that was lost is made again for the same change",
    "brokers that list a queue whose creation was refused without the database": "what is refused is made nowhere",
    "`acknowledge()` of messages whose broker was taken over": _CLIENT,
    "`receive()` after that, before `recover()`": _CLIENT,
    "messages of a prepared branch that was rolled back at the taker come": "order is kept, as when a branch is rolled back at its home",
    "a temporary queue ends within 90 s when its client does not come back to the taker": _ENDS,
    "a temporary queue that was taken over ends within 40 s when its client closes": _ENDS,
    "exit status of `dbmgr remove bkr` of a broker that runs, which is refused": "a script sees that nothing was removed",
    "`dbmgr restore -dir` of messages, some of which were taken over": "a backup is of use after a takeover, too",
}
"""The reason of each difference, by what was looked at."""


def marks(kind: str) -> tuple[str, str]:
    """The lines of the page between which the table of a kind of cluster is."""
    return f"<!-- differences, {kind}: written by make interop-imq -->", f"<!-- end of differences, {kind} -->"


@dataclass(frozen=True)
class Difference:
    """What was looked at, and how it is there and here."""

    what: str
    real: str
    ours: str

    @property
    def why(self) -> str | None:
        return WHY.get(self.what)

    @property
    def line(self) -> str:
        return f"| {self.what} | {self.real} | {self.ours} | {self.why or '**not explained**'} |"


def differences(real: Played, ours: Played) -> list[Difference]:
    """Of what both have seen, and of what only one has."""
    found = []
    for what in [*real.seen, *(each for each in ours.seen if each not in real.seen)]:
        there, here = real.seen.get(what, "not seen"), ours.seen.get(what, "not seen")
        if there != here:
            found.append(Difference(what, _besides(there, here), _besides(here, there)))
    return found


def _besides(one: Seen, other: Seen) -> str:
    """Of lists only what the other one does not have."""
    if isinstance(one, str) or isinstance(other, str):
        return one if isinstance(one, str) else ", ".join(one)
    return ", ".join(each for each in one if each not in other) or ("in another order" if set(one) == set(other) else "–")


def write(kind: str, found: list[Difference], page: Path = PAGE) -> None:
    """Put the differences of a kind of cluster between the marks of the page.  Raises ValueError where it has none."""
    text = page.read_text()
    begin, end = marks(kind)
    if begin not in text or end not in text:
        raise ValueError(f"{page} has no marks {begin} and {end}")
    before, _, rest = text.partition(begin)
    lines = [f"| looked at | Open Message Queue {VERSION} | home brokers | why |", "|---|---|---|---|", *(each.line for each in found)]
    shown = "\n".join(lines) if found else "Nothing else."
    page.write_text(f"{before}{begin}\n{shown}\n{end}{rest.partition(end)[2]}")
