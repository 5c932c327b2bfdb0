"""Play the scenarios of home brokers on a real Open Message Queue, too: `python -m tests.interop.imq [SCENARIO…]`, or `make interop-imq`.

SCENARIO is a kind of cluster (master, peers, enhanced), or one scenario of it (master/heart).  Brokers of both makes run in a network
namespace of its own, since the real ones refuse loopback addresses; peers and enhanced clusters have a PostgreSQL server there.  All
scenarios of a kind together write what differs into docs/imq.md.  Status 1: a scenario has failed, or a difference has no reason in
tests/interop/imq/differences.py.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from tests.interop.imq import models
from tests.interop.imq.clusters import COUNT, Cluster, HomeBrokers, RealBrokers, client_classpath, distribution
from tests.interop.imq.differences import Difference, differences, write
from tests.interop.imq.namespace import OURS, REAL, NoNamespace, addresses, enter, inside, prepare
from tests.interop.imq.scenarios import ENHANCED, MASTER, PEERS, SCENARIOS, Played, chosen, play
from tests.interop.maven import java_classpath, java_missing
from tests.interop.puppet import Puppet
from tests.support.postgresql import MISSING, PostgresqlServer, programs

MODULE = "tests.interop.imq"
PORT = 7676
WITH_DATABASE = {PEERS: models.peers, ENHANCED: models.enhanced}


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
        outcomes = [play_all(kind, each) for kind, each in wanted.items()]
        return 0 if all(outcomes) else 1
    missing = java_missing() or (MISSING if WITH_DATABASE.keys() & wanted.keys() and programs() is None else None)
    if missing is not None:
        return skipped(missing)
    distribution()  # while there is a network
    client_classpath()
    try:
        return enter(MODULE, names)
    except NoNamespace as error:
        return skipped(f"there is no network namespace: {error}")


def play_all(kind: str, names: Sequence[str]) -> bool:
    """Play scenarios of one kind of cluster; whether all is well."""
    found: list[Difference] = []
    good = True
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="mqbroker-imq-")))
        make_model = models.with_master
        if kind in WITH_DATABASE:
            server = PostgresqlServer()
            stack.callback(server.close)
            make_model = WITH_DATABASE[kind](server)
        stages: list[tuple[Cluster, Puppet]] = []
        for make, prefix, classpath in ((RealBrokers, REAL, client_classpath()), (HomeBrokers, OURS, java_classpath("jakarta-2.44.0"))):
            cluster = make(folder / make.name, [f"{address}:{PORT}" for address in addresses(prefix, COUNT)], make_model)
            stack.callback(cluster.close)
            stages.append((cluster, stack.enter_context(Puppet(classpath=classpath))))
        for name in names:
            real, ours = (told(kind, name, cluster, java) for cluster, java in stages)
            good = good and real.reason is None and ours.reason is None
            for difference in differences(real, ours):
                good = good and difference.why is not None
                if kind == MASTER or name not in SCENARIOS[MASTER] or difference.why is None:
                    found.append(difference)
                    print(f"     {difference.line}", flush=True)
    if names == list(SCENARIOS[kind]):
        write(kind, found)
    return good


def told(kind: str, name: str, cluster: Cluster, java: Puppet) -> Played:
    began = time.monotonic()
    played = play(SCENARIOS[kind][name], cluster, java)
    verdict = "ok  " if played.reason is None else "FAIL"
    print(f"{verdict} {time.monotonic() - began:6.1f} s  {kind}/{name} {cluster.name}", flush=True)
    if played.reason is not None:
        print(played.reason, flush=True)
    return played


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
