"""The Spark session of a command.

Spark is set up by its own means: ``--master`` and ``--conf`` (or ``spark-submit``, ``spark-defaults.conf`` and the environment, which
work as for every program).  Without any of them Spark runs in local mode on all cores.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mqspark.errors import BadOptionError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Configure = Callable[["SparkSession.Builder"], "SparkSession.Builder"]

_DEFAULTS = {
    "spark.sql.session.timeZone": "UTC",  # days and hours of the archive mean the same wherever the job runs
    "spark.ui.showConsoleProgress": "false",  # it would write into our own progress bar
    "spark.sql.python.filterPushdown.enabled": "true",  # conditions become selectors where that is possible
}


@dataclass(frozen=True, slots=True)
class SparkSettings:
    """Settings of Spark: ``master`` (None: as configured for Spark), ``conf`` (Spark's own names), ``verbose`` (Spark's log)."""

    master: str | None = None
    conf: Mapping[str, str] = field(default_factory=dict)
    verbose: bool = False


def parse_conf(pairs: tuple[str, ...]) -> dict[str, str]:
    """``("spark.executor.memory=4g", …)`` as a mapping.  Raises :class:`mqspark.errors.BadOptionError` for a part without ``=``."""
    conf: dict[str, str] = {}
    for pair in pairs:
        name, separator, value = pair.partition("=")
        if not separator or not name.strip():
            raise BadOptionError(f"'{pair}' is not a setting of the form NAME=VALUE")
        conf[name.strip()] = value.strip()
    return conf


@contextmanager
def spark_session(settings: SparkSettings, name: str, configure: Configure | None = None) -> Iterator[SparkSession]:
    """A session called ``name``, stopped at the end if it was made here.

    ``configure`` sets the job's own settings; ``settings`` win over them.
    """
    from pyspark.sql import SparkSession

    existing = SparkSession.getActiveSession()
    if existing is not None:
        yield existing
        return
    # The workers of local mode are to be this interpreter: "python3" of the path may have no mqspark.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(f"mqspark {name}")
    for key, value in _DEFAULTS.items():
        builder = builder.config(key, value)
    if configure is not None:
        builder = configure(builder)
    if settings.master is not None:
        builder = builder.master(settings.master)
    for key, value in settings.conf.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    if not settings.verbose:
        session.sparkContext.setLogLevel("FATAL")  # errors are told in one sentence at the end
    try:
        yield session
    finally:
        session.stop()
