"""Where scenarios play: a cluster, Java clients, and what was seen.

A scenario fails where a promise is broken.  What may differ it sees and notes, in words; :mod:`tests.interop.imq.differences` says why.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from tests.interop.imq.clusters import CLIENT, COUNT, Answer, Cluster, Member
from tests.interop.puppet import NOTHING_MS, TEMPORARY, Puppet, PuppetError

WAIT_MS = 10_000
MORE = 1_000_000
"""More messages than there are."""
SETTLED_SECONDS = 2.0
"""What is told to others has come by then; used where nothing shows that it will not."""
TAKEN_SECONDS = 90.0
"""A takeover, and the return of clients, take at most so long."""
Seen = str | tuple[str, ...]


@dataclass
class Stage:
    """A cluster whose brokers are linked, a Java program, and what was seen."""

    cluster: Cluster
    java: Puppet
    seen: dict[str, Seen] = field(default_factory=dict)

    def connect(self, name: str, number: int, client_id: str | None = None, **values: object) -> None:
        """A client of the broker of this number."""
        url = self.cluster.confirming_url(number)
        self.java.connect(name, url, client_id, user=CLIENT, password=CLIENT, **values)

    def follow(self, name: str, number: int, client_id: str | None = None) -> None:
        """A client of the broker of this number that goes on elsewhere."""
        self.java.connect(name, self.cluster.following_url(number), client_id, user=CLIENT, password=CLIENT)

    def mend(self) -> None:
        """Start what does not run, and wait until all are linked and take clients.

        One that has just started serves administrators alone until it has the change record, which it may ask for when it is linked.
        """
        self.cluster.mend()
        for number in range(COUNT):
            self.until_all(lambda n: self.outcome(lambda: self.connect(f"early{n}", n)) == "done", "takes clients", number)
            self.java.close(f"early{number}")

    def connect_all(self) -> None:
        """Clients c0, c1, and so on."""
        for number in range(COUNT):
            self.connect(f"c{number}", number)

    def good(self, number: int, *words: str) -> Answer:
        answer = self.cluster.command(number, *words)
        assert answer.status == 0, answer.text
        return answer

    def refused(self, number: int, *words: str) -> Answer:
        answer = self.cluster.command(number, *words)
        assert answer.status == 1, answer.text
        return answer

    def good_database(self, number: int, *words: str) -> None:
        answer = self.cluster.database(number, *words)
        assert answer.status == 0, answer.text

    def known_at(self, name: str) -> str:
        """The numbers of the brokers that list a destination."""
        found = [number for number in range(COUNT) if name in self.good(number, "list", "dst").destinations]
        return ", ".join(map(str, found)) or "none"

    def until_known(self, name: str, *numbers: int) -> None:
        for number in numbers:
            self.until_all(lambda n: name in self.good(n, "list", "dst").destinations, f"knows {name}", number)

    def until_unknown(self, name: str, *numbers: int, seconds: float = 40.0) -> None:
        def forgotten(number: int) -> bool:
            return not any(name in each for each in self.good(number, "list", "dst", "-tmp").destinations)

        self.until_all(forgotten, f"forgets {name}", *numbers, seconds=seconds)

    def until_all(self, condition: Callable[[int], object], what: str, *numbers: int, seconds: float = 40.0) -> None:
        """Wait until this is so at each of these brokers."""
        for number in numbers:
            self.cluster.until(lambda n=number: condition(n), f"broker {number} {what}", seconds)  # type: ignore[misc]

    def member(self, number: int, at: int) -> Member:
        """The row of a broker in the list of another one, in an enhanced cluster."""
        return self.good(at, "list", "bkr").members[f"b{number}"]

    def until_taken_over(self, number: int, witness: int | None = None) -> int:
        """Wait until a broker is taken over; returns the number of the taker, which takes new clients.  ``witness`` is one that runs."""
        at = next(each for each in range(COUNT) if each != number) if witness is None else witness
        self.cluster.until(lambda: self.member(number, at).state == "TAKEOVER_COMPLETE", f"broker {number} is taken over", TAKEN_SECONDS)
        taker = int(self.member(number, at).taker[1:])
        self.cluster.until(lambda: self.outcome(lambda: self.connect("probe", taker)) == "done", f"broker {taker} takes clients")
        self.java.close("probe")
        return taker

    def take_over(self, number: int) -> int:
        """Kill a broker and wait until it is taken over; returns the number of the taker."""
        self.cluster.kill(number)
        return self.until_taken_over(number)

    def send_at_last(self, client: str, to: str, number: int) -> None:
        """Send a message by a client that goes on elsewhere.  It may come twice: the outcome of a call under way is not known."""

        def sent() -> bool:
            return self.outcome(lambda: self.java.send(client, to, 1, first=number)) == "done"

        self.cluster.until(sent, f"{client} goes on", TAKEN_SECONDS)

    def failure(self, act: Callable[[], object]) -> str:
        """The name of the exception that a client gets."""
        try:
            act()
        except PuppetError as error:
            return str(error).partition(":")[0].rpartition(".")[2]
        return "none"

    def make_temporary(self, name: str, owner: str, *others: str) -> str:
        """A temporary queue of a client, with the consumer ``reading-NAME``, that others may send to; returns how the brokers call it."""
        called = str(self.java.do("temporary", name, on=owner))
        place, reading = f"{TEMPORARY}{name}", f"reading-{name}"
        self.java.consume(reading, owner, place)
        for other in others:
            self.cluster.until(
                lambda o=other: self.outcome(lambda: self.java.send(o, place, 1, first=-1)) == "done",  # type: ignore[misc]
                "it is known elsewhere",
            )
            assert self.java.take(reading, 1, WAIT_MS) == [-1]
        return called

    def take_expected(self, name: str, expected: set[int], more_ms: int = NOTHING_MS) -> list[int]:
        """The numbers of all messages that come to a consumer, as they came; those of ``expected`` are waited for."""
        found: list[int] = []
        while missing := len(expected - set(found)):
            taken = self.java.take(name, missing, WAIT_MS)
            if not taken:
                break
            found += taken
        return found + self.java.take(name, MORE, more_ms)

    def outcome(self, act: Callable[[], object]) -> str:
        """Whether a client may do something."""
        try:
            act()
        except PuppetError:
            return "refused"
        return "done"

    def wait_for_topic(self, topic: str, consumer: str, *producers: str) -> None:
        """Until what each producer sends reaches the consumer, which its broker makes known after it was made."""
        for producer in producers:
            for _ in range(50):
                self.java.send(producer, f"topic://{topic}", 1, first=-1)
                if self.java.take(consumer, 1, 200):
                    break
            else:
                raise AssertionError(f"{consumer} gets nothing of {producer}")
