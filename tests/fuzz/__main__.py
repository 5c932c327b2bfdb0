"""Fuzzing from a kept corpus: ``python -m tests.fuzz [--minutes N] [TARGET …]``.

Each target has an equal part of the time.  It starts from the inputs in ``tests/fuzz/corpus/TARGET``; afterwards those inputs, and what was
found beside them, are reduced to the smallest set that reaches the same code, which replaces the corpus.  An input that fails is kept in
``crash-…`` files in the current folder, and the exit status is 1.
"""

from __future__ import annotations

import argparse
import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.fuzz.targets import TARGETS

CORPUS = Path(__file__).parent / "corpus"
INPUT_SIZE_MAX = 2048
"""Bytes of an input: what is kept in the repository stays small."""


def fuzz(target: str, seconds: int, folder: Path) -> bool:
    """Fuzz one target, and renew its corpus.  Did it do well?"""
    kept = CORPUS / target
    kept.mkdir(parents=True, exist_ok=True)
    found, merged = folder / "found", folder / "merged"
    found.mkdir()
    merged.mkdir()
    # libFuzzer calls its own program again when it merges, by the name that it was called by.
    program = folder / "program"
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m tests.fuzz.run {target} "$@"\n')
    program.chmod(0o755)
    environment = {**os.environ, "MQBROKER_FUZZ_PROGRAM": str(program)}
    options = [f"-max_len={INPUT_SIZE_MAX}", "-timeout=20", "-print_final_stats=0", "-verbosity=0"]
    searched = subprocess.run([program, *options, f"-max_total_time={seconds}", found, kept], env=environment, check=False)
    if searched.returncode:
        return False
    subprocess.run([program, *options, "-merge=1", merged, kept, found], env=environment, check=True, capture_output=True)
    before = {path.name for path in kept.iterdir()}
    for path in kept.iterdir():
        path.unlink()
    for path in merged.iterdir():
        (kept / path.name).write_bytes(path.read_bytes())
    after = {path.name for path in kept.iterdir()}
    print(f"{target}: {len(after)} inputs, {len(after - before)} of them new", flush=True)
    return True


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description="Fuzz from the kept corpus, and extend it.")
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=f"one or more of {', '.join(TARGETS)} (default: all)")
    parser.add_argument("--minutes", type=float, default=5.0)
    arguments = parser.parse_args()
    targets = arguments.targets or list(TARGETS)
    unknown = [name for name in targets if name not in TARGETS]
    if unknown:
        parser.error(f"unknown target {', '.join(unknown)}; there are: {', '.join(TARGETS)}")
    seconds = max(1, round(60 * arguments.minutes / len(targets)))
    failed = []
    for target in targets:
        with tempfile.TemporaryDirectory(prefix="mqbroker-fuzz-") as folder:
            if not fuzz(target, seconds, Path(folder)):
                failed.append(target)
    if failed:
        print(f"FAILED: {', '.join(failed)}; the inputs are in crash-… files here")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
