"""Run cluster scenarios by hand: `python -m tests.interop.cluster KINDS [SCENARIO…]`.

KINDS are the brokers in turn, for example `mqbroker,artemis`; they are repeated where a scenario has more.  Without names all scenarios
run.  `matrix` instead of KINDS runs every mixture, two scenarios at a time; `document` does so, too, and writes each result into the table
of docs/compatibility.md at once: after an interruption give it the names of what is left, `NAME` or `NAME:mqbroker,artemis`.
"""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor, as_completed

from tests.interop.cluster.play import play
from tests.interop.cluster.table import EVERYTHING, MIXTURES, versions, write
from tests.interop.puppet import Puppet

MATRIX_WORDS = {"matrix", "document"}


def cells(kinds: str, name: str) -> list[tuple[str, tuple[str, ...]]]:
    """What a name stands for: scenarios, and the kinds of brokers with which each is to be played."""
    name, _, mixture = name.partition(":")
    if mixture or kinds not in MATRIX_WORDS:
        return [(name, tuple((mixture or kinds).split(",")))]
    return [(name, mixture) for mixture in MIXTURES if EVERYTHING[name].not_for not in mixture]


def main(kinds: str, *names: str) -> int:
    wanted = [cell for name in names or EVERYTHING for cell in cells(kinds, name)]
    failed = False
    print(versions(), flush=True)
    with Puppet() as java, ThreadPoolExecutor(2 if kinds in MATRIX_WORDS else 1) as pool:
        for future in as_completed([pool.submit(play, name, mixture, java) for name, mixture in wanted]):
            result = future.result()
            print(result.line, flush=True)
            if result.reason is not None:
                failed = True
                print(result.reason, flush=True)
            if kinds == "document":
                write(result)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
