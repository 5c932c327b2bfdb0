"""The rounds of each kind of set-up."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from pathlib import Path

from tests.integration.ha.failures.enhanced import EnhancedRounds
from tests.integration.ha.failures.homes import HomeRounds
from tests.integration.ha.failures.rounds import Rounds
from tests.integration.ha.failures.setups import ENHANCED, HOMES, Setup
from tests.integration.ha.failures.turns import Turns
from tests.interop.ha.pairs import REPLICATION, SHARED_STORE

KINDS: Mapping[str, type[Turns]] = {SHARED_STORE: Rounds, REPLICATION: Rounds, ENHANCED: EnhancedRounds, HOMES: HomeRounds}


def kind_of(setup: Setup) -> type[Turns]:
    return KINDS[setup.kind]


def rounds_of(setup: Setup, folder: Path, rng: random.Random, progress: Callable[[str, int, int], None]) -> Turns:
    """Nothing runs yet but a server of its database."""
    return kind_of(setup)(setup, folder, rng, progress)
