"""Unchanged Java clients that a test moves about: connections, producers and consumers of one JVM, by name."""

from __future__ import annotations

import copy
import itertools
import json
import queue
import subprocess
import threading
from types import TracebackType
from typing import Any

from tests.interop.maven import java_classpath

ANSWER_SECONDS = 90.0
AWAITED_MS = 20_000
"""Of waiting for a message that has to come; a busy machine may stand still for seconds."""
NOTHING_MS = 700
"""Of waiting for one that has not to come."""
TEMPORARY = "temporary://"
"""Before the name under which a temporary queue was made."""


class PuppetError(Exception):
    """The Java client raised an exception; the message is its text."""


class Puppet:
    """One JVM with the client library of one generation.

    Commands of different names run side by side; those of one name one after the other.  :meth:`apart` gives clients with names of their
    own in the same JVM.
    """

    def __init__(self, generation: str = "jms-2.44.0", classpath: str | None = None) -> None:
        """`classpath`: another one than that of the generation."""
        self._prefix = ""
        options = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto", "-Xmx256m"]
        self._process = subprocess.Popen(
            ["java", *options, "-cp", classpath or java_classpath(generation), "interop.Puppet"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self._writing = threading.Lock()
        self._numbers = itertools.count(1)
        self._answers: dict[int, queue.Queue[dict[str, Any]]] = {}
        self._given: dict[int, str] = {}
        """The commands that have no answer yet, in words."""
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> Puppet:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._prefix:
            self.do("forget", "")
            return
        self._process.kill()
        self._process.wait()

    def apart(self) -> Puppet:
        """Clients in the same JVM that share no name with others; at the end of a ``with`` their connections are closed."""
        other = copy.copy(self)
        other._prefix = f"{next(self._numbers)}/"
        return other

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith('{"number"'):
                answer = json.loads(line)
                self._answers[answer["number"]].put(answer)

    def begin(self, verb: str, name: str, **values: object) -> int:
        """Give a command without waiting; returns what :meth:`end` takes."""
        number = next(self._numbers)
        self._answers[number] = queue.Queue()
        self._given[number] = f"{verb} {name} {values}"
        for reference in {"on", "like", "load", "within"} & values.keys():
            values[reference] = f"{self._prefix}{values[reference]}"
        for way in {"to", "from"} & values.keys():
            values[way] = str(values[way]).replace(TEMPORARY, f"{TEMPORARY}{self._prefix}", 1)
        words = [
            str(number),
            verb,
            f"{self._prefix}{name}",
            *(f"{key}={_text(value)}" for key, value in values.items() if value is not None),
        ]
        assert self._process.stdin is not None
        with self._writing:
            self._process.stdin.write("\t".join(words) + "\n")
            self._process.stdin.flush()
        return number

    def end(self, number: int) -> Any:
        """The answer to a command; raises PuppetError, or TimeoutError after 90 s."""
        try:
            answer = self._answers[number].get(timeout=ANSWER_SECONDS)
        except queue.Empty:
            raise TimeoutError(f"the Java client did not answer within {ANSWER_SECONDS} s: {self._given[number]}") from None
        finally:
            del self._answers[number], self._given[number]
        if "error" in answer:
            raise PuppetError(answer["error"])
        return answer["result"]

    def do(self, verb: str, name: str, **values: object) -> Any:
        return self.end(self.begin(verb, name, **values))

    def connect(self, name: str, url: str, client_id: str | None = None, **values: object) -> str:
        """Open a connection with a session; returns the address of the broker that it reached.

        `values`: another ``user`` and ``password``, and ``xa`` for branches.
        """
        return str(self.do("connect", name, url=url, id=client_id, **values))

    def connect_like(self, name: str, other: str) -> str:
        """As :meth:`connect`, by the same factory as another connection."""
        return str(self.do("connect", name, like=other))

    def send(self, on: str, to: str, count: int = 1, **values: object) -> None:
        """Send ``count`` messages with ascending numbers to ``queue://…`` or ``topic://…``."""
        self.do("send", f"send-{on}", on=on, to=to, count=count, **values)

    def consume(self, name: str, on: str, source: str, **values: object) -> None:
        """Open a consumer in a session of its own, or in the one named ``within``."""
        self.do("consume", name, **{"on": on, "from": source}, **values)

    def take(self, name: str, count: int, ms: int = AWAITED_MS) -> list[int]:
        """The numbers of up to ``count`` messages, as they came; each is waited for at most ``ms``."""
        return list(self.do("take", name, count=count, ms=ms))

    def take_all(self, name: str, count: int) -> list[int]:
        """As :meth:`take`, where no more than ``count`` are expected: one that comes after them is among the result."""
        return self.take(name, count) + self.take(name, 1, NOTHING_MS)

    def close(self, name: str) -> None:
        self.do("close", name)

    def topology(self, connection: str) -> dict[str, list[str | None]]:
        """Node id to the ports of primary and backup, as the client knows them."""
        return dict(self.do("topology", connection))


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
