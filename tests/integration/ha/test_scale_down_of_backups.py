"""Processes: the primary is killed, and its backup gives everything to another broker, where clients find it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tests.integration.brokers import Broker
from tests.integration.ha.following_clients import FollowingClients
from tests.integration.ha.pair import BACKUP, PRIMARY
from tests.integration.ha.processes import ProcessesCase
from tests.integration.ha.replicated_pair import CONFIGURATION, COPIED

TARGET = "target"
SCALE_DOWN = "<scale-down><commit-interval>{}</commit-interval></scale-down>"
TEXTS = [f"m{number}" for number in range(300)]
MANY = [f"m{number}" for number in range(2500)]
"""As many, committed one by one, keep a scale-down busy for seconds: it is killed on the way."""
MOVED_SECONDS = 300.0
"""Each commit may wait for two slow disks."""
MOVED = "300 messages of 1 queues"


class ScaleDownCase(FollowingClients, ProcessesCase):
    """A pair with its target; no broker runs yet."""

    names = (PRIMARY, BACKUP, TARGET)
    store: str
    ready: str
    """Written by a backup that may take over."""
    commit_interval = 10

    def configuration(self, name: str) -> str:
        scale_down = SCALE_DOWN.format(self.commit_interval)
        roles = {PRIMARY: "<primary/>", BACKUP: f"<backup>{scale_down}<allow-failback>true</allow-failback></backup>"}
        policy = f"<{self.store}>{roles[name]}</{self.store}>" if name in roles else "<primary-only/>"
        ports = [self.ports[name], *(port for other, port in self.ports.items() if other != name)]
        return CONFIGURATION.format(name=name, folder=self.data(name), policy=policy, ports=ports)

    def data(self, name: str) -> Path:
        return self.folder / name

    def taken_over(self, texts: Sequence[str] = TEXTS) -> Broker:
        """The backup, after it has found its primary with ``texts`` dead."""
        self.start(TARGET)
        primary = self.start(PRIMARY)
        backup = self.start(BACKUP, self.ready)
        self.send_to(PRIMARY, *texts)
        primary.kill()
        backup.wait_for("AMQ221010")
        return backup

    def everything_is_at_the_target(self) -> None:
        backup = self.taken_over()
        backup.wait_for(MOVED)
        self.send_to(TARGET, "m7", "last")
        self.assertEqual(self.received(TARGET), [*TEXTS, "last"])
        primary = self.start(PRIMARY, "AMQ221001")
        backup.wait_for(self.ready, times=2)
        self.send_to(PRIMARY, "new")
        self.assertEqual(self.received(PRIMARY), ["new"])
        primary.stop()

    def killed_on_the_way(self) -> None:
        self.commit_interval = 1
        backup = self.taken_over(MANY)
        backup.wait_for("scale-down: messages go to")
        backup.kill()
        backup = self.start(BACKUP, "scale-down: messages go to")
        backup.wait_for("scale-down to", seconds=MOVED_SECONDS)
        self.assertEqual(self.received(TARGET), MANY)


class SharedStoreTests(ScaleDownCase):
    store = "shared-store"
    ready = "AMQ221031"

    def data(self, name: str) -> Path:
        return self.folder / ("data" if name in (PRIMARY, BACKUP) else "others")

    def test_everything_is_at_the_target_and_the_primary_that_is_back_has_nothing(self) -> None:
        self.everything_is_at_the_target()

    def test_a_backup_that_is_killed_on_the_way_goes_on_and_doubles_nothing(self) -> None:
        self.killed_on_the_way()


class ReplicationTests(ScaleDownCase):
    store = "replication"
    ready = COPIED

    def test_everything_is_at_the_target_and_the_primary_that_is_back_has_nothing(self) -> None:
        self.everything_is_at_the_target()

    def test_a_backup_that_is_killed_on_the_way_goes_on_and_doubles_nothing(self) -> None:
        self.killed_on_the_way()
