"""What kind of run of high availability a seed gives."""

from __future__ import annotations

import random


def is_of_pairs(seed: int) -> bool:
    """Does a seed give a pair that replicates?  The others give brokers that share a store."""
    return random.Random(f"{seed}/kind of group").random() < 0.5


def has_locks(seed: int) -> bool:
    """Does a lock manager prove who of a pair may be active?"""
    return is_of_pairs(seed) and random.Random(f"{seed}/lock manager").random() < 0.35


def checks_networks(seed: int) -> bool:
    """Has each of the brokers a network check?"""
    return random.Random(f"{seed}/network check").random() < 0.2


def is_colocated(seed: int) -> bool:
    """Does a seed give brokers that host each other's backups, instead of a group?"""
    return random.Random(f"{seed}/colocated").random() < 0.06


def gives_away(seed: int) -> bool:
    """Does a seed give a cluster whose backups scale down, instead of a group?"""
    return not is_colocated(seed) and random.Random(f"{seed}/scale-down").random() < 0.1


def is_one_group(seed: int) -> bool:
    return not (is_colocated(seed) or gives_away(seed))
