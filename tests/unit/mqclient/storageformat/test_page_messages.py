"""Messages in pages, read without a broker."""

from __future__ import annotations

from unittest import TestCase

from hypothesis import HealthCheck, Phase, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from mqbroker.storage.files.recover import read_folder
from mqclient.storageformat.surviving import (
    index_of,
)
from tests.unit.messaging.queues import test_paging_crashes as paging
from tests.unit.mqclient.storageformat.test_surviving import folders_of, read_by_index, recovered_by_broker


class Walk(paging.Walk):
    """The same for pages."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.broker.start = self.started  # type: ignore[method-assign]

    def started(self) -> None:
        self.before = self.bodies()
        type(self.broker).start(self.broker)

    def bodies(self) -> dict[str, list[bytes]]:
        """The bodies by queue, in the order of the message ids, after a look at what the broker would find."""
        rig = self.broker.rig
        found = read_by_index(rig.disk, rig.settings)
        assert found == recovered_by_broker(read_folder(rig.disk, rig.settings))
        names = {key[1]: binding.value["name"] for key, binding in index_of(rig.disk, folders_of(rig.settings)).bindings.items()}
        bodies: dict[str, list[bytes]] = {name: [] for name in paging.QUEUES}
        for _, (buffer, references, _, large) in sorted(found.items()):
            end = int.from_bytes(buffer[:4], "big") - 9
            for queue_id in references:
                bodies[str(names[queue_id])].append(large if large is not None else buffer[4:end])
        return bodies

    def check(self, synced: int) -> None:
        there = {name: sorted(paging.content(self.queue(name))) for name in paging.QUEUES}
        assert {name: sorted(bodies) for name, bodies in self.before.items()} == there
        assert {name: sorted(bodies) for name, bodies in self.bodies().items()} == there
        super().check(synced)


class PageTests(TestCase):
    @hypothesis_settings(
        max_examples=25, deadline=None, suppress_health_check=list(HealthCheck), phases=(Phase.generate,), derandomize=True
    )
    @given(st.integers(0, 2**32))
    def test_with_pages(self, seed: int) -> None:
        Walk(seed).run()
