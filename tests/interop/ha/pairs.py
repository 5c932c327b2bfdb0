"""Pairs of mqbrokers or of real Artemis brokers, from the same elements of broker.xml: with one store or replicated, and voters."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from tests.interop.cluster.nodes import Nodes, Shape
from tests.interop.instance import Additions
from tests.interop.peers import Peer, make_peer
from tests.interop.processes import ManagedProcess, ProcessFailed, serves

SHARED_STORE, REPLICATION = "shared-store", "replication"
PRIMARY, BACKUP = 0, 1
"""Numbers of the brokers; further ones have no policy, and vote."""
VOTER = 2
"""The number of the first one that votes."""
READY = {SHARED_STORE: "AMQ221031", REPLICATION: "AMQ221024"}
"""Written by a backup that may take over."""
NOTICED = """\
            <check-period>1000</check-period>
            <connection-ttl>2000</connection-ttl>
"""
"""As in our samples: how soon a broker is noticed that has died without a word."""
POLICY = """
      <connection-ttl-check-interval>250</connection-ttl-check-interval>
      <ha-policy>
         <{kind}>
            <{role}>
{options}
            </{role}>
         </{kind}>
      </ha-policy>
"""
JAVA_VOTER = POLICY.format(kind=REPLICATION, role="primary", options="               <group-name>voters</group-name>")
"""A real Artemis votes only as the primary of a replicated pair; the group keeps backups of others away from it."""
START_SECONDS = 180.0
LOOK_SECONDS = 0.05


class Pair(Nodes):
    """The brokers are not started yet.  `options` are elements of the policies, by role; `voter` is the kind of the voters, if another.

    `store` is the element of what they share in the place of a folder.
    """

    def __init__(
        self,
        kind: str,
        name: str,
        folder: Path,
        options: Mapping[str, str] = {},
        voters: int = 0,
        voter: str = "",
        proxied: bool = False,
        store: str = "",
        make: Callable[[str, Path, Additions, int], Peer] = make_peer,
    ) -> None:
        self.kind = kind
        core = {
            number: store + POLICY.format(kind=kind, role=role, options=options.get(role, ""))
            for number, role in enumerate(("primary", "backup"))
        }
        if voter == "artemis":
            core |= {VOTER + number: JAVA_VOTER for number in range(voters)}
        kinds = [name, name, *[voter or name] * voters]
        super().__init__(kinds, folder, Shape(core=core, options=NOTICED, proxied=proxied), make)
        if kind == SHARED_STORE and not store:
            self._share()

    def _share(self) -> None:
        """One folder for the data of both."""
        own, shared = self[BACKUP].folder / "data", self[PRIMARY].folder / "data"
        shutil.rmtree(own, ignore_errors=True)
        own.symlink_to(shared, target_is_directory=True)

    def start(self) -> None:
        """Start all, one after the other, voters before the primary that looks for them; the backup may take over then."""
        for broker in (*self.brokers[VOTER:], self[PRIMARY]):
            broker.start()
        self[BACKUP].launch()
        self.process(BACKUP).wait_for_line(READY[self.kind], START_SECONDS)

    def process(self, number: int) -> ManagedProcess:
        process = self[number].running
        assert process is not None, f"broker {number} does not run"
        return process

    def process_ids(self) -> dict[int, int]:
        """Of those that run, by their numbers."""
        return {number: broker.running.pid for number, broker in enumerate(self.brokers) if broker.running is not None}

    @property
    def url(self) -> str:
        """For clients that follow to the broker that is active, and notice silence as soon as the brokers do.

        A client learns of the other broker only at the place that the pair announces.
        """
        places = ",".join(place.url for place in (self.proxies or self.brokers)[:2])
        return f"({places})?ha=true&clientFailureCheckPeriod=500&connectionTTL=1500&retryInterval=200"

    def active(self) -> list[int]:
        """Those of the two that serve clients."""
        return [number for number in (PRIMARY, BACKUP) if self[number].running is not None and serves(self.ports[number])]

    def wait_until_active(self, number: int, seconds: float) -> None:
        self.wait_until(lambda: serves(self.ports[number]), f"broker {number} is active", seconds)

    def wait_until(self, condition: Callable[[], bool], what: str, seconds: float) -> None:
        """Raises ProcessFailed."""
        deadline = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > deadline:
                raise ProcessFailed(f"after {seconds:g} s it is not so that {what}\n{self.told()}")
            time.sleep(LOOK_SECONDS)
