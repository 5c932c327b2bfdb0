"""What the mixed clients of a soak run logged, judged without a look at the broker."""

from __future__ import annotations

from collections.abc import Iterable

from tests.integration.kill.deliveries import judge_deliveries
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


def judge_mixed(events: Iterable[Event]) -> list[str]:
    """All violations of the mixed clients, each as a sentence."""
    return judge_deliveries(events, receivers_of)


def judge_activity(counts: dict[str, int]) -> list[str]:
    """What must have happened at all, so that silence is not taken for health."""
    wanted = {"sent": "messages", "acked": "acknowledgements", "answered": "replies", "visited": "visits", "managed": "management calls"}
    problems = [f"there were no {what}" for verb, what in wanted.items() if not counts.get(verb)]
    asked, answered = counts.get("asked", 0), counts.get("answered", 0)
    if answered < asked / 2:
        problems.append(f"of {asked} requests only {answered} were answered")
    return problems
