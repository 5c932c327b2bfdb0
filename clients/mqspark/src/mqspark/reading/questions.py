"""Questions to the nodes of a cluster, side by side: without an absent node's answer, but with all others.

The absence of a broker may take long to notice: a hanging one accepts connections and is silent until a time limit is over.  So each node
is asked in a thread of its own, one question at a time.  As soon as one node has answered, the others get :data:`ANSWER_SECONDS` more.  A
late node is away for now; its question stays open, and its answer is taken before the next questions.

* A node that was late or away is asked again each time, and not waited for while another node answers.
* A node whose late answer has come is there again, and perhaps slow: the next round waits for it without limit.  So slow nodes, too, get
  their turn.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, wait
from typing import Any, Final, TypeVar

from mqspark.errors import BrokerUnreachableError

T = TypeVar("T")
Start = Callable[[Callable[[], None]], None]

ANSWER_SECONDS: Final = 1.0
"""Time that the other nodes have for their answers once one node has answered."""


def in_thread(function: Callable[[], None]) -> None:
    """Run ``function`` beside the caller; the process does not wait for it when it ends."""
    threading.Thread(target=function, name="mqspark-question", daemon=True).start()


class Questions:
    """Questions to nodes, and the nodes that have not answered yet.  ``start`` runs a function beside the caller."""

    def __init__(self, start: Start) -> None:
        self._start = start
        self._open: dict[str, Future[Any]] = {}
        self._away: set[str] = set()
        """Nodes that are not waited for while another one answers."""
        self._slow: set[str] = set()
        """Nodes that are waited for in this round, because an answer in the last one came late."""
        self._late: set[str] = set()
        """Nodes whose answer came late in this round."""

    def begin_round(self) -> None:
        """The next questions belong together."""
        self._slow, self._late = self._late, set()

    def busy(self, node_id: str) -> bool:
        """Is a question to the node open, so that no other thread may use its connection?"""
        return node_id in self._open

    def ask(self, questions: Mapping[str, Callable[[], T]], *, everyone: bool) -> tuple[dict[str, T], dict[str, BrokerUnreachableError]]:
        """The answers, and for nodes without an answer the reasons, in the order of ``questions``.

        ``everyone``: wait for all nodes.  Raises the errors of questions other than BrokerUnreachableError.
        """
        asked = {node_id: self._begin(question, len(questions) > 1) for node_id, question in questions.items() if not self.busy(node_id)}
        in_time = self._wait(asked, everyone)
        answers: dict[str, T] = {}
        reasons: dict[str, BrokerUnreachableError] = {}
        failed: BaseException | None = None
        for node_id in questions:
            future = asked.get(node_id)
            if future is None or not future.done():
                reasons[node_id] = BrokerUnreachableError(f"node {node_id} gives no answer yet")
                if future is not None:
                    self._open[node_id] = future
                    self._away.add(node_id)
                continue
            error = future.exception()
            if error is None:
                answers[node_id] = future.result()
                self._away.discard(node_id)
                if future not in in_time:
                    self._late.add(node_id)
            elif isinstance(error, BrokerUnreachableError):
                reasons[node_id] = error
                self._away.add(node_id)
            else:
                failed = failed or error
        if failed is not None:
            raise failed
        return answers, reasons

    def ended(self) -> dict[str, BrokerUnreachableError]:
        """Take the late answers; returns the nodes whose questions have failed meanwhile.  Raises other errors of the questions."""
        lost: dict[str, BrokerUnreachableError] = {}
        for node_id, future in list(self._open.items()):
            if not future.done():
                continue
            del self._open[node_id]
            error = future.exception()
            if error is None:
                self._away.discard(node_id)
                self._late.add(node_id)
            elif isinstance(error, BrokerUnreachableError):
                lost[node_id] = error
            else:
                raise error
        return lost

    def wait_for_any(self) -> bool:
        """Wait until an open question has its end; False when there is none."""
        return bool(self._open) and bool(wait(self._open.values(), return_when=FIRST_COMPLETED))

    def wait_for(self, node_id: str) -> None:
        """Wait until the node has no open question."""
        if node_id in self._open:
            wait([self._open[node_id]])

    def when_free(self, node_id: str, function: Callable[[], None]) -> None:
        """Call ``function`` now, or in the thread of the node's open question when that has its end."""
        future = self._open.get(node_id)
        if future is None:
            function()
        else:
            future.add_done_callback(lambda _: function())

    def _begin(self, question: Callable[[], T], beside: bool) -> Future[T]:
        future: Future[T] = Future()

        def run() -> None:
            try:
                future.set_result(question())
            except BaseException as error:
                future.set_exception(error)

        if beside:
            self._start(run)
        else:
            run()
        return future

    def _wait(self, asked: Mapping[str, Future[Any]], everyone: bool) -> set[Future[Any]]:
        """Wait for the answers; which of them came in time."""
        left = set(asked.values())
        answered = False
        while left and not answered:
            done, left = wait(left, return_when=FIRST_COMPLETED)
            answered = any(not isinstance(future.exception(), BrokerUnreachableError) for future in done)
        wait([future for node_id, future in asked.items() if node_id not in self._away], timeout=ANSWER_SECONDS)
        in_time = {future for future in asked.values() if future.done()}
        wait([future for node_id, future in asked.items() if everyone or node_id in self._slow])
        return in_time
