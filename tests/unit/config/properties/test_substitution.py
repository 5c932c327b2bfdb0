"""Placeholders in configuration files."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.config.properties.substitution import SubstitutionError, substitute


class SubstitutionTests(SynchronousTestCase):
    def replaced(self, text: str, **properties: str) -> str:
        self.missing: list[str] = []
        return substitute(text, properties, self.missing.append)

    def test_values_and_defaults(self) -> None:
        self.assertEqual(self.replaced("a ${x} b ${y:2}", x="1"), "a 1 b 2")
        self.assertEqual(self.replaced("tcp://${host:localhost}:${port:61616}", port="1"), "tcp://localhost:1")
        self.assertEqual(self.replaced("${x:a:b}"), "a:b")
        self.assertEqual(self.replaced("${x:}"), "")
        self.assertEqual(self.missing, [])

    def test_inside_each_other(self) -> None:
        self.assertEqual(self.replaced("${a:${b:c}}"), "c")
        self.assertEqual(self.replaced("${a:${b:c}}", b="d"), "d")
        self.assertEqual(self.replaced("${a:${b:c}}", a="e"), "e")
        self.assertEqual(self.replaced("${a}", a="${b}", b="f"), "f")
        self.assertEqual(self.replaced("${${a}}", a="b", b="g"), "g")

    def test_missing_is_empty_and_told(self) -> None:
        self.assertEqual(self.replaced("[${x}]"), "[]")
        self.assertEqual(self.missing, ["x"])

    def test_circles_and_open_ends(self) -> None:
        for properties in ({"a": "${a}"}, {"a": "${b}", "b": "x${a}"}, {"a": "${a}${a}"}):
            self.assertRaises(SubstitutionError, self.replaced, "${a}", **properties)
        self.assertRaises(SubstitutionError, self.replaced, "${a")

    def test_growth_is_bounded(self) -> None:
        self.assertRaises(SubstitutionError, self.replaced, "${a}", a="${b}" * 900, b="x" * 100000)
