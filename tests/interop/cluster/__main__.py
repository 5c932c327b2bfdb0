"""Run cluster scenarios by hand: `python -m tests.interop.cluster KINDS [SCENARIO…]`.

KINDS are the brokers in turn, for example `mqbroker,artemis`; they are repeated where a scenario has more.  Without names all scenarios
run.  `matrix` instead of KINDS runs every mixture; `document` does so, too, and writes the result into docs/compatibility.md.
"""

from __future__ import annotations

import itertools
import sys

from tests.interop.cluster.play import PAIRED, SCENARIOS, Result, play
from tests.interop.cluster.table import write_table
from tests.interop.puppet import Puppet

MIXTURES = tuple(itertools.product(("mqbroker", "artemis"), repeat=2))


def main(kinds: str, *names: str) -> int:
    every = kinds in {"matrix", "document"}
    mixtures = MIXTURES if every else (tuple(kinds.split(",")),)
    wanted = names or (*SCENARIOS, *PAIRED)
    results: list[Result] = []
    with Puppet() as java:
        for name in wanted:
            for mixture in sorted({kind[:1] for kind in mixtures}) if every and name in PAIRED else mixtures:
                results.append(play(name, mixture, java))
                print(results[-1].line, flush=True)
                if results[-1].reason is not None:
                    print(results[-1].reason, flush=True)
    if kinds == "document":
        write_table(results)
    return 1 if any(result.reason is not None for result in results) else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
