"""The settings of broker.xml that the proof depends on, and what the start says about them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mqbroker.ha.proof.paxos import needed_votes

if TYPE_CHECKING:
    from mqbroker.config.model.cluster import ReplicationConfiguration
    from mqbroker.ha.proof.ports import Introduction

RETRY_SECONDS = 1.0
"""Between two searches for a proof, unless ``vote-retry-wait`` is set.  Each pause is a half to one and a half of it, by chance."""

RETRY_SECONDS_MIN = 0.1
"""A pause that is set is at least so long: a broker that finds nobody has its answer at once."""

LOCK_RETRY_SECONDS = 0.1
"""Between two requests to a lock manager, give or take a half.  Clients wait for this time after the lock of a dead broker has ended."""

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
        if policy.manager is not None:
            return cls(not policy.backup, retry_seconds=LOCK_RETRY_SECONDS)
        return cls(
            not policy.backup,
            policy.quorum_size,
            policy.check_for_active_server,
            policy.vote_on_replication_failure,
            RETRY_SECONDS if policy.vote_retry_wait is None else max(policy.vote_retry_wait / 1000, RETRY_SECONDS_MIN),
            ROUND_SECONDS if policy.quorum_vote_wait is None else policy.quorum_vote_wait,
        )


def warnings_at_start(rules: ProofRules, met: Mapping[str, Introduction | None]) -> Iterator[str]:
    """One sentence for each thing that weakens the guarantee that two copies are never active, or keeps both from going on alone.

    ``met`` are the voters, by node id, None for one that does not answer.
    """
    if not met:
        yield (
            "this pair is alone: when the network between its brokers is cut both may become active.  "
            "Any further mqbroker in the cluster, even an idle one, is a voter and prevents that, unless its persistence-enabled is false"
        )
    needed = needed_votes(len(met), rules.quorum_size)
    voting = {each: said for each, said in met.items() if said is not None and said.votes}
    paired = [each for each, said in voting.items() if said.paired]
    if len(met) < needed:
        yield f"quorum-size asks for {needed} votes, and there are {len(met)} voters: only the other copy itself can agree"
    elif len(voting) < needed:
        silent = ", ".join(each for each in met if each not in voting)
        yield (
            f"{needed} of {len(met)} voters are needed, and {len(voting)} vote: without the others ({silent}) neither broker of this "
            "pair goes on alone.  mqbroker activation forget takes out a voter that never comes back"
        )
    elif len(voting) - len(paired) < needed:
        yield (
            f"{needed} of {len(met)} voters are needed, and some that vote are pairs ({', '.join(paired)}): pairs on the same two machines "
            "wait for each other when one of these is lost.  More voters that are in no pair, on other machines, prevent that"
        )
    java = [each for each, said in voting.items() if said.java]
    if java:
        yield f"Java brokers vote here ({', '.join(java)}): they remember no votes, so that two copies may become active, as in a Java pair"
    if rules.primary and rules.check_for_active_server is False:
        yield "check-for-active-server is false: this broker becomes active although another copy may be"
    if rules.vote_on_replication_failure is False:
        yield "vote-on-replication-failure is false: this broker goes on without its replica although that may become active"
