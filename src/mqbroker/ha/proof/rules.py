"""The settings of broker.xml that the proof depends on, and what the start says about them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mqbroker.ha.proof.paxos import needed_votes

if TYPE_CHECKING:
    from mqbroker.config.model.cluster import ReplicationConfiguration

RETRY_SECONDS = 1.0
"""Between two searches for a proof, unless ``vote-retry-wait`` is set.  Each pause is a half to one and a half of it, by chance."""

RETRY_SECONDS_MIN = 0.1
"""A pause that is set is at least so long: a broker that finds nobody has its answer at once."""

ROUND_SECONDS = 2.0
"""How long the answers of one round of the voters are waited for, unless ``quorum-vote-wait`` is set."""


@dataclass(frozen=True, slots=True)
class ProofRules:
    """``quorum_size`` -1 = not set.  Of ``check_for_active_server`` and ``vote_on_replication_failure`` None and true mean the rule."""

    primary: bool
    quorum_size: int = -1
    check_for_active_server: bool | None = None
    vote_on_replication_failure: bool | None = None
    retry_seconds: float = RETRY_SECONDS
    round_seconds: float = ROUND_SECONDS

    @classmethod
    def of(cls, policy: ReplicationConfiguration) -> ProofRules:
        return cls(
            not policy.backup,
            policy.quorum_size,
            policy.check_for_active_server,
            policy.vote_on_replication_failure,
            RETRY_SECONDS if policy.vote_retry_wait is None else max(policy.vote_retry_wait / 1000, RETRY_SECONDS_MIN),
            ROUND_SECONDS if policy.quorum_vote_wait is None else policy.quorum_vote_wait,
        )


def warnings_at_start(rules: ProofRules, voters: Sequence[str], is_java: Callable[[str], bool]) -> Iterator[str]:
    """One sentence for each thing that weakens the guarantee that two copies are never active."""
    if not voters:
        yield (
            "this pair is alone: when the network between its brokers is cut both may become active.  "
            "Any further mqbroker in the cluster, even an idle one, is a voter and prevents that"
        )
    needed = needed_votes(len(voters), rules.quorum_size)
    if len(voters) < needed:
        yield f"quorum-size asks for {needed} votes, and there are {len(voters)} voters: only the other copy itself can agree"
    java = [each for each in voters if is_java(each)]
    if java:
        yield f"Java brokers vote here ({', '.join(java)}): they remember no votes, so that two copies may become active, as in a Java pair"
    if rules.primary and rules.check_for_active_server is False:
        yield "check-for-active-server is false: this broker becomes active although another copy may be"
    if rules.vote_on_replication_failure is False:
        yield "vote-on-replication-failure is false: this broker goes on without its replica although that may become active"
