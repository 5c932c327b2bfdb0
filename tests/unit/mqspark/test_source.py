"""The schema that the data source tells."""

from __future__ import annotations

import importlib.util
import unittest

if importlib.util.find_spec("pyspark") is None:
    raise unittest.SkipTest("pyspark is not installed")

from tests.unit.mqspark.test_body_schema import BodySchemaCase


class SourceTests(BodySchemaCase):
    def test_lists_of_columns(self) -> None:
        for text in (
            "id bigint",
            "ORDERID BIGINT, amount Double",
            "a: int, `b c` string NOT NULL COMMENT 'it''s, \\' that'",
            "lines array<struct<product: string, amount decimal(10, 2)>>, tags map<string, array<int>>",
            "nothing struct<>, `null` void",
            "name string collate UNICODE, code char(3), more varchar(10), at timestamp_ntz, day date",
            "span interval day to second, größe int",
        ):
            self.assertEqual(self.schema(text), f"body struct<{text}>")
