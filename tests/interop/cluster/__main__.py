"""Run cluster scenarios by hand: `python -m tests.interop.cluster KINDS [SCENARIO…]`.

KINDS are the brokers in turn, for example `mqbroker,artemis`; they are repeated where a scenario has more.  Without names all scenarios
run; `matrix` instead of KINDS runs every mixture.
"""

from __future__ import annotations

import itertools
import sys
import tempfile
import time
import traceback
from pathlib import Path

from tests.interop.cluster.nodes import Nodes
from tests.interop.cluster.scenarios import SCENARIOS
from tests.interop.puppet import Puppet


def play(name: str, kinds: tuple[str, ...]) -> str | None:
    """Why the scenario failed, None when it holds."""
    scenario = SCENARIOS[name]
    brokers = tuple(itertools.islice(itertools.cycle(kinds), scenario.brokers))
    with tempfile.TemporaryDirectory() as folder, Nodes(brokers, Path(folder), scenario.shape) as nodes, Puppet() as java:
        try:
            scenario.play(nodes, java)
        except Exception:
            return f"{traceback.format_exc()}\n{nodes.told()}"
    return None


def main(kinds: str, *names: str) -> int:
    mixtures = [tuple(kinds.split(","))] if kinds != "matrix" else list(itertools.product(("mqbroker", "artemis"), repeat=2))
    failed = 0
    for name, mixture in itertools.product(names or SCENARIOS, mixtures):
        began = time.monotonic()
        reason = play(name, mixture)
        failed += reason is not None
        print(f"{'ok  ' if reason is None else 'FAIL'} {time.monotonic() - began:6.1f} s  {name} {','.join(mixture)}", flush=True)
        if reason is not None:
            print(reason)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
