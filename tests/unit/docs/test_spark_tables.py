"""The tables of the pages about Spark are those of the code."""

from __future__ import annotations

import importlib.util
import re
import unittest

from twisted.trial.unittest import SynchronousTestCase

from mqspark.options import OPTIONS, Use
from tests.unit.docs.pages import load_program


class SparkTableTests(SynchronousTestCase):
    def setUp(self) -> None:
        if importlib.util.find_spec("pyspark") is None:
            raise unittest.SkipTest("pyspark is not installed")

    def test_the_pages_have_what_the_code_says(self) -> None:
        program = load_program("docs", "generate_spark_tables.py")
        for path in program.PAGES:
            page = path.read_text(encoding="utf-8")
            self.assertEqual(program.generated(page), page, "run python docs/generate_spark_tables.py")

    def test_every_table_is_on_one_page(self) -> None:
        program = load_program("docs", "generate_spark_tables.py")
        found = [match[2] for path in program.PAGES for match in program.BLOCK.finditer(path.read_text(encoding="utf-8"))]
        self.assertEqual(sorted(found), sorted(program.tables()))

    def test_every_option_has_a_row(self) -> None:
        makers = load_program("docs", "generate_spark_tables.py").tables()
        tables = "".join(makers[name]() for name in ("connection", "source", "sink", "journal"))
        for name in {entry.name for entry in OPTIONS if entry.uses != Use.JOB}:
            self.assertIn(f"\n| `{name}` |", tables)

    def test_a_change_of_the_code_is_noticed(self) -> None:
        program = load_program("docs", "generate_spark_tables.py")
        page = "before\n<!-- generated: columns -->\n\nold\n\n<!-- end: columns -->\nafter\n"
        changed = program.generated(page)
        self.assertTrue(re.fullmatch(r"before\n.*\| `message_id` .*after\n", changed, re.S), changed)
        self.assertEqual(program.generated(changed), changed)
