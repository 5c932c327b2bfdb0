"""What was in the folders of a replica before a copy."""

from __future__ import annotations

import random
from unittest import TestCase

from twisted.logger import capturedLogs, formatEvent

from mqbroker.storage.mirror.former import empty_folders, keep_for_good
from tests.support.disk import SimulatedCrash, SimulatedDisk
from tests.unit.storage.mirror.support import REPLICA, REPLICA_ROOTS, forbidden

JOURNAL = f"{REPLICA}/journal"
PAGING = f"{REPLICA}/paging"


class FormerTests(TestCase):
    def setUp(self) -> None:
        self.disk = SimulatedDisk(random.Random(1))

    def fill(self, text: str) -> None:
        for path in (f"{JOURNAL}/mqbroker-data-1.mqj", f"{REPLICA}/large-messages/1.msg", f"{PAGING}/q-1/1.page", f"{JOURNAL}/server.lock"):
            file = self.disk.open(path)
            file.write(0, text.encode())
            file.sync()
            file.close()
            self.disk.make_directory(f"{PAGING}/q-1")
            for directory in (JOURNAL, f"{REPLICA}/large-messages", f"{PAGING}/q-1", PAGING):
                self.disk.sync_directory(directory)

    def empty(self, saved: int) -> None:
        empty_folders(self.disk, REPLICA_ROOTS, saved)

    def keep(self) -> None:
        keep_for_good(self.disk, REPLICA_ROOTS)

    def files(self) -> dict[str, bytes]:
        return {path.removeprefix(f"{REPLICA}/"): content for path, content in sorted(self.disk.files().items())}

    def test_folders_that_are_missing_are_made(self) -> None:
        self.empty(2)
        self.disk.crash()
        self.assertEqual(self.disk.list(REPLICA), ["bindings", "journal", "large-messages", "paging"])
        self.assertEqual(self.files(), {})

    def test_what_is_there_is_put_away_and_survives(self) -> None:
        self.empty(1)
        self.fill("first")
        self.empty(1)
        self.disk.crash()
        self.assertEqual(
            self.files(),
            {
                "journal/oldreplica.1/mqbroker-data-1.mqj": b"first",
                "journal/server.lock": b"first",
                "large-messages/oldreplica.1/1.msg": b"first",
                "paging/oldreplica.1/q-1/1.page": b"first",
            },
        )
        self.assertEqual(self.disk.list(f"{REPLICA}/bindings"), [])
        self.assertEqual(self.disk.list(PAGING), ["oldreplica.1"])

    def test_the_log_names_the_places_of_what_is_put_away(self) -> None:
        self.empty(1)
        for put_away in (lambda: self.empty(1), self.keep):
            self.fill("data")
            with capturedLogs() as events:
                put_away()
                put_away()
            number = 1 if put_away != self.keep else 2
            expected = [f"{REPLICA}/{each}" for each in ("journal", "large-messages", "paging")]
            lines = [f"AMQ222162: the former data of {folder} are in {folder}/oldreplica.{number}" for folder in expected]
            self.assertEqual([formatEvent(event) for event in events], lines)
        self.fill("data")
        with capturedLogs() as events:
            self.empty(0)
        self.assertEqual(events, [])

    def test_the_oldest_go(self) -> None:
        for saved, left in ((2, {"2", "3"}), (1, {"3"}), (-1, {"1", "2", "3"})):
            self.setUp()
            self.empty(saved)
            for text in ("1", "2", "3"):
                self.fill(text)
                self.empty(saved)
            kept = {
                f"{root}/oldreplica.{number}/{name}"
                for number in left
                for root, name in (("journal", "mqbroker-data-1.mqj"), ("large-messages", "1.msg"), ("paging", "q-1/1.page"))
            }
            self.assertEqual(set(self.files()) - {"journal/server.lock"}, kept)
            self.assertEqual(self.files()["journal/oldreplica.3/mqbroker-data-1.mqj"], b"3")

    def test_nothing_goes_before_there_are_more_than_are_saved(self) -> None:
        for times in range(1, 5):
            self.fill(f"data {times}")
            self.empty(4)
            self.assertEqual(len(self.disk.list(JOURNAL)) - 1, times)

    def test_with_none_saved_what_is_there_goes(self) -> None:
        self.empty(0)
        self.fill("first")
        self.empty(0)
        self.assertEqual(list(self.files()), ["journal/server.lock"])
        self.assertEqual(self.disk.list(PAGING), [])

    def test_a_folder_of_the_disk_itself_stays(self) -> None:
        for saved in (1, 0):
            self.setUp()
            self.fill("former")
            for directory in (JOURNAL, PAGING):
                self.disk.make_directory(f"{directory}/lost+found")
            with forbidden(self.disk):
                self.empty(saved)
                self.empty(saved)
            self.assertIn("lost+found", self.disk.list(JOURNAL))
            self.assertEqual([path for path in self.files() if path.endswith("journal/mqbroker-data-1.mqj")], [])

    def test_a_file_where_folders_are_expected_goes_with_them(self) -> None:
        for saved, left in ((1, {"paging/oldreplica.2/q-1/1.page", "paging/oldreplica.2/notes"}), (0, set())):
            self.setUp()
            for text in ("1", "2"):
                self.fill(text)
                self.disk.open(f"{PAGING}/notes").close()
                self.empty(saved)
            self.assertEqual({path for path in self.files() if path.startswith("paging/")}, left)

    def test_what_is_kept_for_good_is_never_removed_nor_counted(self) -> None:
        self.empty(0)
        self.fill("split")
        self.keep()
        for text in ("2", "3", "4"):
            self.fill(text)
            self.empty(1)
        journals = [path for path in self.files() if path.endswith(".mqj")]
        self.assertEqual(journals, ["journal/oldreplica.1/mqbroker-data-1.mqj", "journal/oldreplica.4/mqbroker-data-1.mqj"])
        self.fill("5")
        self.empty(0)
        self.assertEqual(self.files()["journal/oldreplica.1/mqbroker-data-1.mqj"], b"split")
        self.assertEqual(self.files()["paging/oldreplica.1/q-1/1.page"], b"split")

    def test_what_is_kept_for_good_is_in_one_place_after_a_power_failure_in_between(self) -> None:
        failures = 0
        for after in range(80):
            self.setUp()
            self.empty(-1)
            self.fill("former")
            self.empty(-1)
            self.fill("split")
            self.disk.crash_after = after
            try:
                self.keep()
            except SimulatedCrash:
                failures += 1
                self.disk.crash()
            self.disk.crash_after = None
            self.keep()
            self.disk.crash()
            others = ("oldreplica.1/", "server.lock")
            content = {path: data for path, data in self.files().items() if not any(each in path for each in others)}
            names = ("journal/{}/mqbroker-data-1.mqj", "large-messages/{}/1.msg", "paging/{}/q-1/1.page")
            # A crash may leave an empty folder of the number that was to be used.
            folder = "oldreplica.3" if names[0].format("oldreplica.3") in content else "oldreplica.2"
            expected = {name.format(folder): b"split" for name in names}
            expected |= {f"{root}/{folder}/kept": b"" for root in ("bindings", "journal", "large-messages", "paging")}
            self.assertEqual(content, expected)
        self.assertGreater(failures, 20)
        self.assertLess(failures, 80)

    def test_what_was_kept_for_good_is_whole_when_it_says_so(self) -> None:
        for after in range(80):
            self.setUp()
            self.empty(-1)
            self.fill("split")
            self.disk.crash_after = after
            try:
                self.keep()
            except SimulatedCrash:
                self.disk.crash()
            self.disk.crash_after = None
            kept = [path.removesuffix("/kept") for path in self.files() if path.endswith("/kept")]
            if kept:
                self.assertEqual([path for path in self.files() if path.endswith(".mqj")], ["journal/oldreplica.1/mqbroker-data-1.mqj"])
                self.assertEqual([path for path in self.files() if path.endswith(".page")], ["paging/oldreplica.1/q-1/1.page"])

    def test_a_new_split_goes_to_a_place_of_its_own(self) -> None:
        self.empty(0)
        self.fill("first")
        self.keep()
        self.keep()
        self.fill("second")
        self.keep()
        journals = {path: data for path, data in self.files().items() if path.endswith(".mqj")}
        self.assertEqual(
            journals, {"journal/oldreplica.1/mqbroker-data-1.mqj": b"first", "journal/oldreplica.2/mqbroker-data-1.mqj": b"second"}
        )
        self.assertNotIn("journal/oldreplica.3/kept", self.files())

    def test_after_a_power_failure_in_between_it_is_done_again(self) -> None:
        for after in range(40):
            self.setUp()
            self.empty(-1)
            self.fill("first")
            self.disk.crash_after = after
            try:
                self.empty(-1)
            except SimulatedCrash:
                self.disk.crash()
            self.disk.crash_after = None
            self.empty(-1)
            self.disk.crash()
            names = sorted(path.rpartition("/")[2] for path in self.files())
            self.assertEqual(names, ["1.msg", "1.page", "mqbroker-data-1.mqj", "server.lock"])
            self.assertEqual([path for path in self.files() if "oldreplica" not in path], ["journal/server.lock"])
