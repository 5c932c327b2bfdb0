"""Run cluster scenarios by hand: `python -m tests.interop.cluster KINDS [SCENARIO…]`.

KINDS are the brokers in turn, for example `mqbroker,artemis`; they are repeated where a scenario has more.  Without names all scenarios
run.  `matrix` instead of KINDS runs every mixture, two scenarios at a time; `document` does so, too, and writes the result into
docs/compatibility.md.
"""

from __future__ import annotations

import itertools
import sys
from concurrent.futures import ThreadPoolExecutor

from tests.interop.cluster.play import PAIRED, SCENARIOS, Result, play
from tests.interop.cluster.table import write_table
from tests.interop.puppet import Puppet

KINDS = ("mqbroker", "artemis")
MATRIX_WORDS = {"matrix", "document"}


def runs(kinds: str, names: tuple[str, ...]) -> list[tuple[str, tuple[str, ...]]]:
    """What to play: names of scenarios with kinds of brokers."""
    found: list[tuple[str, tuple[str, ...]]] = []
    for name in names or (*SCENARIOS, *PAIRED):
        if kinds in MATRIX_WORDS:
            scenario = PAIRED.get(name) or SCENARIOS[name]
            mixtures = itertools.product(KINDS, repeat=1 if name in PAIRED else 2)
            found += ((name, mixture) for mixture in mixtures if scenario.not_for not in mixture)
        else:
            found.append((name, tuple(kinds.split(","))))
    return found


def main(kinds: str, *names: str) -> int:
    results: list[Result] = []
    with Puppet() as java, ThreadPoolExecutor(2 if kinds in MATRIX_WORDS else 1) as pool:
        for future in [pool.submit(play, name, mixture, java) for name, mixture in runs(kinds, names)]:
            result = future.result()
            results.append(result)
            print(result.line, flush=True)
            if result.reason is not None:
                print(result.reason, flush=True)
    if kinds == "document":
        write_table(results)
    return 1 if any(result.reason is not None for result in results) else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
