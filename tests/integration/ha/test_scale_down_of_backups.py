"""Processes: the primary is killed, and its backup gives everything to another broker, where clients find it."""

from __future__ import annotations

from pathlib import Path

from tests.integration.ha.following_clients import FollowingClients
from tests.integration.ha.pair import BACKUP, PRIMARY
from tests.integration.ha.processes import ProcessesCase
from tests.integration.ha.replicated_pair import CONFIGURATION, COPIED

TARGET = "target"
SCALE_DOWN = "<scale-down><commit-interval>1</commit-interval></scale-down>"
TEXTS = [f"m{number}" for number in range(2500)]
"""As many, committed one by one, keep a scale-down busy for seconds: it is killed on the way."""
MOVES = "scale-down: messages go to"
MOVED_SECONDS = 300.0
"""Each commit may wait for two slow disks."""


class ScaleDownCase(FollowingClients, ProcessesCase):
    """A pair with its target; no broker runs yet."""

    names = (PRIMARY, BACKUP, TARGET)
    store: str
    ready: str
    """Written by a backup that may take over."""

    def configuration(self, name: str) -> str:
        roles = {PRIMARY: "<primary/>", BACKUP: f"<backup>{SCALE_DOWN}<allow-failback>true</allow-failback></backup>"}
        policy = f"<{self.store}>{roles[name]}</{self.store}>" if name in roles else "<primary-only/>"
        ports = [self.ports[name], *(port for other, port in self.ports.items() if other != name)]
        return CONFIGURATION.format(name=name, folder=self.data(name), policy=policy, ports=ports)

    def data(self, name: str) -> Path:
        return self.folder / name

    def killed_on_the_way(self) -> None:
        """The backup is a backup again when it has given everything away."""
        _, primary = self.start_all(TARGET, PRIMARY)
        backup = self.start(BACKUP, self.ready)
        self.send_to(PRIMARY, *TEXTS, transacted=True)
        primary.kill()
        backup.wait_for("AMQ221010")
        backup.wait_for(MOVES)
        backup.kill()
        backup = self.start(BACKUP, MOVES)
        backup.wait_for("scale-down to", seconds=MOVED_SECONDS)
        self.send_to(TARGET, "m7", "last")
        self.assertEqual(self.received(TARGET), [*TEXTS, "last"])
        before = backup.written.partition(MOVES)[0]
        primary = self.start(PRIMARY, "AMQ221001")
        backup.wait_for(self.ready, times=before.count(self.ready) + 1)
        self.send_to(PRIMARY, "new")
        self.assertEqual(self.received(PRIMARY), ["new"])
        primary.stop()


class SharedStoreTests(ScaleDownCase):
    store = "shared-store"
    ready = "AMQ221031"

    def data(self, name: str) -> Path:
        return self.folder / ("data" if name in (PRIMARY, BACKUP) else "others")

    def test_a_backup_that_is_killed_on_the_way_goes_on_and_doubles_nothing_and_the_primary_that_is_back_has_nothing(self) -> None:
        self.killed_on_the_way()


class ReplicationTests(ScaleDownCase):
    store = "replication"
    ready = COPIED

    def test_a_backup_that_is_killed_on_the_way_goes_on_and_doubles_nothing_and_the_primary_that_is_back_has_nothing(self) -> None:
        self.killed_on_the_way()
