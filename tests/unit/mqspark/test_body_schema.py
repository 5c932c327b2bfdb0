"""The option bodySchema: what Spark takes, and what is refused in words of the option."""

from __future__ import annotations

import importlib.util
import unittest

from twisted.trial.unittest import SynchronousTestCase

if importlib.util.find_spec("pyspark") is None:
    raise unittest.SkipTest("pyspark is not installed")

from pyspark.sql.datasource import CaseInsensitiveDict

from mqspark.errors import BadOptionError
from mqspark.source import MqbrokerDataSource


class BodySchemaCase(SynchronousTestCase):
    def schema(self, text: str) -> str:
        """The schema that Spark is told."""
        given = {"url": "tcp://127.0.0.1:1", "queue": "q", "columns": "body", "bodyFormat": "json", "bodySchema": text}
        return MqbrokerDataSource(CaseInsensitiveDict(given)).schema()  # type: ignore[arg-type]


class BodySchemaTests(BodySchemaCase):
    def test_everything_else_names_the_option_and_what_is_wrong(self) -> None:
        for text, part in (
            ("product strng", "the column product has the type 'strng', which SQL does not know; did you mean string?"),
            ("product", "the column product has no type"),
            ("product string amount double", "expected a comma between two columns, not 'amount'"),
            ("product string,", "expected the name of a column, not the end"),
            ("lines array<strct<a int>>", "'strct', which SQL does not know; did you mean struct?"),
            ("lines array", "expected '<' behind array, not the end"),
            ("lines array<int", "expected '>' at the end of array, not the end"),
            ("tags map<string>", "expected ',' between the types of a map, not '>'"),
            ("amount decimal(10", "expected ')'"),
            ("a int not, b int", "expected 'null' behind NOT, not ','"),
            ("a int comment b", "expected a text in quotes behind COMMENT"),
            ("a int>", "expected a comma between two columns, not '>'"),
            ("; drop", "expected the name of a column, not ';'"),
        ):
            error = str(self.assertRaises(BadOptionError, self.schema, text))
            self.assertTrue(error.startswith(f"the option bodySchema={text!r}: "), error)
            self.assertIn(part, error)
