"""How much memory a broker takes for its own when nobody says it."""

from __future__ import annotations

import os
from pathlib import Path
from unittest import mock

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.process import memory_limits
from mqbroker.process.memory_limits import GLOBAL_MAX_SIZE, available_memory, default_global_max_size

MACHINE = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


class MemoryLimitTests(SynchronousTestCase):
    def limited(self, *texts: str) -> None:
        """Control groups whose files say this."""
        folder = Path(self.mktemp())
        folder.mkdir()
        names = []
        for number, text in enumerate(texts):
            path = folder / str(number)
            path.write_text(text)
            names.append(str(path))
        self.enterContext(mock.patch.object(memory_limits, "_CGROUP_FILES", (str(folder / "missing"), *names)))
        self.enterContext(mock.patch.object(memory_limits, "_OWN_GROUPS", str(folder / "missing")))

    def test_without_a_control_group_it_is_the_memory_of_the_machine(self) -> None:
        self.limited()
        self.assertEqual(available_memory(), MACHINE)

    def test_the_smallest_limit_of_a_control_group_holds(self) -> None:
        self.limited("8192000\n", "4096000\n")
        self.assertEqual(available_memory(), 4096000)

    def test_the_limit_of_a_unit_of_systemd_and_of_its_slice_holds(self) -> None:
        for groups, name, held in (
            ("0::/system.slice/mq.service\n", "/sys/fs/cgroup/system.slice/mq.service/memory.max", 7_000_000),
            ("0::/system.slice/mq.service\n", "/sys/fs/cgroup/system.slice/memory.max", 6_000_000),
            ("9:name=systemd:/x\n4:cpu,memory:/mq\n0::/\n", "/sys/fs/cgroup/memory/mq/memory.limit_in_bytes", 5_000_000),
        ):
            files = {"/proc/self/cgroup": groups, name: f"{held}\n"}

            def read_text(path: Path, files: dict[str, str] = files, **_: object) -> str:
                if str(path) not in files:
                    raise FileNotFoundError(path)
                return files[str(path)]

            with mock.patch.object(Path, "read_text", read_text):
                self.assertEqual(available_memory(), held)

    def test_a_limit_above_the_machine_and_the_word_max_limit_nothing(self) -> None:
        self.limited("max\n", str(MACHINE * 2))
        self.assertEqual(available_memory(), MACHINE)

    def test_messages_get_a_quarter_of_little_memory(self) -> None:
        self.limited("400000000")
        self.assertEqual(default_global_max_size(), 100_000_000)

    def test_messages_get_no_more_than_a_gibibyte(self) -> None:
        self.limited()
        with mock.patch.object(memory_limits, "available_memory", lambda: 100 * GLOBAL_MAX_SIZE):
            self.assertEqual(default_global_max_size(), GLOBAL_MAX_SIZE)
