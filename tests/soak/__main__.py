"""`make soak`, with MINUTES=n and ROUNDS=n, HA_ROUNDS=n and so on: failures, then all mixed for n minutes, and a report."""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.integration.ha.failures.setups import OF_HOMES, ON_DATABASES, SETUPS, WITH_ZOOKEEPER
from tests.soak.report import Part, Report
from tests.soak.run import MixedRun, failure_rounds, kill_rounds, say, spark_rounds
from tests.soak.watch import Trend
from tests.spark.support import java_missing
from tests.support.postgresql import MISSING, programs

REPORT_FOLDER = Path(__file__).resolve().parents[2] / "soak-report"


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=5.0, help="of the mixed run (default %(default)s; 0: none)")
    parser.add_argument("--rounds", type=int, default=500, help="rounds of kill before it (default %(default)s; 0: none)")
    parser.add_argument(
        "--ha-rounds",
        type=int,
        metavar="N",
        help="rounds of failures of pairs with high availability (default %(default)s; 0: none)",
        default=300,
    )
    parser.add_argument(
        "--database-rounds",
        type=int,
        metavar="N",
        help="rounds of failures of pairs and enhanced clusters on databases (default %(default)s; 0: none)",
        default=200,
    )
    parser.add_argument(
        "--home-rounds",
        type=int,
        metavar="N",
        help="rounds of failures of home brokers (default %(default)s; 0: none)",
        default=200,
    )
    parser.add_argument(
        "--spark-rounds",
        type=int,
        metavar="N",
        help="rounds of each kind of failure around Spark (default %(default)s; 0: none)",
        default=30,
    )
    parser.add_argument("--seed", type=int, help="repeats the moments of kills and cuts")
    parser.add_argument(
        "--report", type=Path, default=REPORT_FOLDER, metavar="DIR", help="for report.txt and report.json (default %(default)s)"
    )
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep the broker's folder and the logs of the clients here")
    options = parser.parse_args(arguments)
    if options.spark_rounds and (missing := java_missing()):
        parser.error(f"the rounds of Spark: {missing}; --spark-rounds 0 leaves them out")
    if options.database_rounds and programs() is None:
        parser.error(f"the rounds on databases: {MISSING}; --database-rounds 0 leaves them out")
    seed = options.seed if options.seed is not None else random.getrandbits(32)
    seconds = options.rounds * 2.5 + options.ha_rounds * 11 + options.spark_rounds * 45
    seconds += options.database_rounds * 12 + options.home_rounds * 10
    say(f"seed {seed}; about {seconds / 60 + options.minutes:.0f} minutes")
    parts: list[Part] = []
    trends: list[Trend] = []
    judged = 0.0
    series: dict[str, list[dict[str, float]]] = {}
    with tempfile.TemporaryDirectory(prefix="mqbroker-soak-") as temporary:
        folder = options.keep or Path(temporary)
        if options.rounds:
            parts.append(kill_rounds(folder / "rounds", options.rounds, random.Random(seed)))
        if options.ha_rounds:
            parts += failure_rounds(folder / "pairs", options.ha_rounds, random.Random(seed + 3), (*SETUPS, WITH_ZOOKEEPER))
        if options.database_rounds:
            parts += failure_rounds(folder / "databases", options.database_rounds, random.Random(seed + 4), ON_DATABASES)
        if options.home_rounds:
            parts += failure_rounds(folder / "homes", options.home_rounds, random.Random(seed + 5), OF_HOMES)
        if options.spark_rounds:
            parts += spark_rounds(folder / "spark", options.spark_rounds, random.Random(seed + 2))
        if options.minutes:
            mixed = MixedRun(folder / "mixed", options.minutes * 60, random.Random(seed + 1))
            mixed.run()
            parts += mixed.parts
            trends, judged, series = mixed.trends, mixed.judged_seconds, mixed.series
    report = Report(seed, " ".join(["python -m tests.soak", *arguments]), parts, trends, bool(options.minutes), judged, series)
    report.write(options.report)
    print(report.text(), end="")
    return 0 if report.passed else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
