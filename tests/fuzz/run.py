"""Coverage-guided fuzzing with atheris (``pip install atheris``)::

    python -m tests.fuzz.run TARGET [libFuzzer options and corpus folders]

TARGET is one of the names of :data:`tests.fuzz.targets.TARGETS`, or ``all``, which takes the first byte of each input to choose.  Without
``-max_total_time=SECONDS`` or ``-runs=NUMBER`` it runs until it finds something.  :mod:`tests.fuzz` does this with the kept corpus.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable


def choose(targets: dict[str, Callable[[bytes], None]]) -> Callable[[bytes], None]:
    """One target made of ``targets``: the first byte of the input says which."""
    everything = list(targets.values())

    def target(data: bytes) -> None:
        if data:
            everything[data[0] % len(everything)](data[1:])

    return target


def main(arguments: list[str]) -> None:
    """Run the fuzzer; it ends the process."""
    import atheris  # only here: the bounded run and the import of this module work without it

    with atheris.instrument_imports(include=["mqclient", "mqbroker"]):
        from tests.fuzz.targets import TARGETS
    names = [*TARGETS, "all"]
    if len(arguments) < 2 or arguments[1] not in names:
        raise SystemExit(f"usage: python -m tests.fuzz.run {{{','.join(names)}}} [libFuzzer options]")
    target = choose(TARGETS) if arguments[1] == "all" else TARGETS[arguments[1]]
    program = os.environ.get("MQBROKER_FUZZ_PROGRAM", arguments[0])
    atheris.Setup([program, *arguments[2:]], target)
    atheris.Fuzz()


if __name__ == "__main__":
    main(sys.argv)
