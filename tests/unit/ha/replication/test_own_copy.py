"""The copy of one broker: changes of its record with and without a writer, and the place of the other copy."""

from __future__ import annotations

import random
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.ha.proof.copy_record import CopyRecord, CopyState, OtherCopy, write_record
from mqbroker.ha.replication.own_copy import OwnCopy
from mqbroker.storage.settings import StoreSettings
from tests.support.clock import FakeClock
from tests.support.disk import SimulatedDisk
from tests.support.diskwriter import SimulatedDiskWriter

FOLDER = "/data/journal"
PLACE = '["other", "netty", [["port", "61616"]]]'


class OwnCopyTests(SynchronousTestCase):
    def copy(self, connector: str) -> OwnCopy:
        own = OwnCopy(FakeClock())
        own.inner = disk = SimulatedDisk(random.Random(1))
        own.settings = StoreSettings(FOLDER, "/data/bindings", "/data/large-messages")
        disk.make_directory(FOLDER)
        write_record(disk, FOLDER, CopyRecord("own", CopyState.COMPLETE, 1, OtherCopy("other", connector)))
        own.open_record(random.Random(2).randbytes, True, self.fail)
        return own

    def test_the_place_of_the_other_copy_is_that_of_the_note(self) -> None:
        [place] = self.copy(PLACE).known_places()
        self.assertEqual(dict(place.parameters)["port"], "61616")
        self.assertEqual(OwnCopy(FakeClock()).known_places(), [])
        self.assertEqual(self.copy("nonsense").known_places(), [])

    def test_changes_go_through_the_writer_while_there_is_one(self) -> None:
        own = self.copy(PLACE)
        told: list[Any] = []
        own.writer = writer = SimulatedDiskWriter()
        own.submit([lambda: told.append("written")], told.append)
        self.assertEqual((told, writer.waiting), ([], 1))
        own.writer = None
        own.submit([lambda: told.append("at once")], told.append)
        own._clock.advance(0)  # type: ignore[attr-defined]
        self.assertEqual(told, ["at once", None])
