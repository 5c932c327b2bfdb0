"""Play the scenarios of home brokers on a real Open Message Queue, too: `python -m tests.interop.imq [SCENARIO…]`, or `make interop-imq`.

Brokers of both kinds run in a network namespace of its own, since the real ones refuse loopback addresses.  All scenarios together write
what differs into docs/imq.md.  Status 1: a scenario has failed, or a difference has no reason in tests/interop/imq/differences.py.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from tests.interop.imq.clusters import Cluster, HomeBrokers, RealBrokers, client_classpath, distribution
from tests.interop.imq.differences import Difference, differences, write
from tests.interop.imq.namespace import OURS, REAL, NoNamespace, addresses, enter, inside, prepare
from tests.interop.imq.scenarios import Played, chosen, play
from tests.interop.maven import java_classpath, java_missing
from tests.interop.puppet import Puppet

MODULE = "tests.interop.imq"
PORT = 7676


def skipped(reason: str) -> int:
    """Nothing was played; with CI=true that is a failure."""
    print(f"scenarios on Open Message Queue not played: {reason}", file=sys.stderr)
    return 1 if os.environ.get("CI") == "true" else 0


def main(*names: str) -> int:
    try:
        wanted = chosen(names)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    if inside():
        prepare(REAL, OURS)
        return play_all(wanted, whole=not names)
    missing = java_missing()
    if missing is not None:
        return skipped(missing)
    distribution()  # while there is a network
    client_classpath()
    try:
        return enter(MODULE, names)
    except NoNamespace as error:
        return skipped(f"there is no network namespace: {error}")


def play_all(names: list[str], whole: bool) -> int:
    found: list[Difference] = []
    good = True
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="mqbroker-imq-")))
        stages: list[tuple[Cluster, Puppet]] = []
        for kind, prefix, classpath in ((RealBrokers, REAL, client_classpath()), (HomeBrokers, OURS, java_classpath("jakarta-2.44.0"))):
            cluster = kind(folder / kind.name, [f"{address}:{PORT}" for address in addresses(prefix, 3)])
            stack.callback(cluster.close)
            stages.append((cluster, stack.enter_context(Puppet(classpath=classpath))))
        for name in names:
            real, ours = (told(name, cluster, java) for cluster, java in stages)
            good = good and real.reason is None and ours.reason is None
            for difference in differences(real, ours):
                found.append(difference)
                good = good and difference.why is not None
                print(f"     {difference.line}", flush=True)
    if whole:
        write(found)
    return 0 if good else 1


def told(name: str, cluster: Cluster, java: Puppet) -> Played:
    began = time.monotonic()
    played = play(name, cluster, java)
    verdict = "ok  " if played.reason is None else "FAIL"
    print(f"{verdict} {time.monotonic() - began:6.1f} s  {name} {cluster.name}", flush=True)
    if played.reason is not None:
        print(played.reason, flush=True)
    return played


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
