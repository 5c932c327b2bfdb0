"""The Python of Spark's workers in tests, with their imports made beforehand.

Spark plans, runs and commits each query in Python processes, and most of them live for a moment.  Each imports pandas, pyarrow and the data
sources, which takes most of its time.  Here the daemon that they are forked from has imported these.
"""

from __future__ import annotations

import importlib
import os
import shlex
import sys
from pathlib import Path

IMPORTED = (
    "pandas",
    "pyarrow.parquet",
    "pyspark.worker",
    "mqspark.journal_tables",
    "mqspark.reading.batch_reader",
    "mqspark.reading.stream_reader",
    "mqspark.writing.sink",
)
PROGRAM = """#!/bin/sh
[ "$2" = pyspark.daemon ] || exec {python} "$@"
shift 2
exec {python} -m tests.spark.warm_python "$@"
"""


def warm_python(folder: Path) -> str:
    """A program in ``folder`` for ``PYSPARK_PYTHON``, which runs as Python does."""
    program = folder / "python"
    program.write_text(PROGRAM.format(python=shlex.quote(sys.executable)))
    program.chmod(0o755)
    return str(program)


def main() -> None:
    """Be ``pyspark.daemon``, whose argument is the module of its workers."""
    # A thread of OpenBLAS would be missing in the forked processes.
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    for name in (*IMPORTED, *sys.argv[1:]):
        importlib.import_module(name)
    importlib.import_module("pyspark.daemon").manager()


if __name__ == "__main__":
    main()
