"""The voters among the brokers of one process: they are asked without the network.

A broker that hosts backups, and each of these, has the other ones in its process.  Their places may lead elsewhere: with ``excludes`` that
name its own connector a hosted backup is announced at the place of another broker.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from twisted.internet.defer import Deferred, maybeDeferred, succeed

if TYPE_CHECKING:
    from mqbroker.ha.one_copy import Answers
    from mqbroker.ha.proof.ports import Choice
    from mqbroker.server.server import Server


class ProcessVoters:
    """The voters that are active, by node id."""

    def __init__(self) -> None:
        self._voters: dict[str, tuple[Server, Answers]] = {}

    def join(self, server: Server, answers: Answers) -> Callable[[], object]:
        """The broker of ``server`` is active, and votes with ``answers``, until the function is called that this returns."""
        self._voters[server.node_id] = server, answers
        return partial(self._voters.pop, server.node_id, None)

    def ask(self, node_id: str, choose: Choice) -> Deferred[bytes] | None:
        """See :meth:`mqbroker.ha.proof.ports.Network.ask_voter`; None when the broker is not in this process, or not active.

        Question and answer each come from a call of the loop, as over the network.  A voter that ends meanwhile gives no answer.
        """
        found = self._voters.get(node_id)
        if found is None:
            return None
        chosen = choose(False)
        if chosen is None:
            return succeed(b"")
        server, answers = found
        handler, question = chosen
        answer: Deferred[bytes] = Deferred()

        def answered(result: Any) -> None:
            server.clock.call_later(0, answer.callback, result)

        def ask() -> None:
            if self._voters.get(node_id) is found:
                server.turn.run(lambda: maybeDeferred(answers[handler], question).addBoth(answered))

        server.clock.call_later(0, ask)
        return answer
