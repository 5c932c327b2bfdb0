"""Checkpoints of queries, as Spark writes them."""

from __future__ import annotations

import importlib.util
import json
import unittest

if importlib.util.find_spec("pyspark") is None:
    raise unittest.SkipTest("pyspark is not installed")

from mqspark.errors import BadOptionError, MqsparkError
from tests.unit.mqspark.test_settling import SettlingTestCase


class FileTests(SettlingTestCase):
    def test_other_sources_and_other_forms_are_passed_over(self) -> None:
        path = self.checkpoint({0: ["-", {"topic": {"0": 5}}, "17", {"0": json.dumps(self.at(2))}]}, [0])
        self.assertEqual([each.position for each in self.settle(path)], [2])

    def test_nothing_committed(self) -> None:
        self.assertEqual(self.settle(self.checkpoint({0: [self.at(2)]}, [])), [])

    def test_what_is_no_checkpoint(self) -> None:
        with self.assertRaisesRegex(BadOptionError, "there is no checkpoint of a query at"):
            self.settle(str(self.folder / "missing"))
        path = self.checkpoint({}, [3])
        with self.assertRaisesRegex(MqsparkError, "offsets/3 cannot be read"):
            self.settle(path)
        (self.folder / "offsets" / "3").write_text("PAR1")
        with self.assertRaisesRegex(MqsparkError, "is not a file of an offset log"):
            self.settle(path)
