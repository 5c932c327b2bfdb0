"""Run cluster scenarios by hand: `python -m tests.interop.cluster KINDS [SCENARIO…]`.

KINDS are the brokers in turn, for example `mqbroker,artemis`; they are repeated where a scenario has more.  Without names all scenarios
run.  `matrix` instead of KINDS runs every mixture, two scenarios at a time; `document` does so, too, and writes the row of each scenario
into docs/compatibility.md as soon as it is complete: after an interruption give it the names of those that are left.
"""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor, as_completed

from tests.interop.cluster.play import Result, play
from tests.interop.cluster.table import EVERYTHING, MIXTURES, versions, write_row
from tests.interop.puppet import Puppet

MATRIX_WORDS = {"matrix", "document"}


def mixtures_of(kinds: str, name: str) -> list[tuple[str, ...]]:
    """The kinds of brokers with which a scenario is to be played."""
    if kinds not in MATRIX_WORDS:
        return [tuple(kinds.split(","))]
    return [mixture for mixture in MIXTURES if EVERYTHING[name].not_for not in mixture]


def main(kinds: str, *names: str) -> int:
    wanted = {name: mixtures_of(kinds, name) for name in names or EVERYTHING}
    rows: dict[str, list[Result]] = {name: [] for name in wanted}
    print(versions(), flush=True)
    with Puppet() as java, ThreadPoolExecutor(2 if kinds in MATRIX_WORDS else 1) as pool:
        for future in as_completed([pool.submit(play, name, mixture, java) for name in wanted for mixture in wanted[name]]):
            result = future.result()
            print(result.line, flush=True)
            if result.reason is not None:
                print(result.reason, flush=True)
            row = rows[result.name]
            row.append(result)
            if kinds == "document" and len(row) == len(wanted[result.name]):
                write_row(row)
    return 1 if any(result.reason is not None for row in rows.values() for result in row) else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
