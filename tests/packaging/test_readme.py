"""The README shows what really runs."""

from __future__ import annotations

import re
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


class ReadmeTests(unittest.TestCase):
    def test_the_python_example_is_the_file_that_the_tests_run(self) -> None:
        readme = (ROOT / "README.md").read_text(encoding="utf-8")
        shown = re.findall(r"```python\n(.*?)```", readme, re.S)
        self.assertEqual([part.rstrip() for part in shown], [(ROOT / "examples" / "first_message.py").read_text(encoding="utf-8").rstrip()])

    def test_the_two_commands_are_targets_of_the_makefile(self) -> None:
        readme = (ROOT / "README.md").read_text(encoding="utf-8")
        makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
        for target in re.findall(r"^\$ make ([\w-]+)", readme, re.M):
            self.assertRegex(makefile, rf"(?m)^{target}:")
