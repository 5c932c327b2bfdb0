"""The kinds of value in broker.xml."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from mqbroker.config.schema import values as kinds


class ByteSizeTests(SynchronousTestCase):
    def test_suffixes(self) -> None:
        """As in Artemis all suffixes are powers of 1024, in any case, with or without i and b."""
        for text, expected in {
            "10": 10,
            "10b": 10,
            "512k": 512 * 1024,
            "1K": 1024,
            "1KB": 1024,
            "1KiB": 1024,
            "10 M": 10 * 1024**2,
            "10MB": 10 * 1024**2,
            "2gib": 2 * 1024**3,
            "-1": -1,
        }.items():
            with self.subTest(text=text):
                self.assertEqual(kinds.BYTES_OR_NONE.convert(text), expected)

    def test_what_is_no_size(self) -> None:
        for text in ("", "1.5M", "1T", "10 MB 5", "M", "-2", "-1M", "1e3", "9" * 25, "99999999999999G"):
            with self.subTest(text=text):
                self.assertRaises(ValueError, kinds.BYTES_OR_NONE.convert, text)

    def test_minimum(self) -> None:
        self.assertRaises(ValueError, kinds.POSITIVE_BYTES.convert, "0")
        self.assertRaises(ValueError, kinds.BYTES.convert, "-1")

    @given(st.integers(0, 2**33), st.sampled_from(["", "k", "m", "g"]), st.sampled_from(["", "b", "ib", "i"]))
    def test_every_size(self, number: int, factor: str, ending: str) -> None:
        expected = number * {"": 1, "k": 1024, "m": 1024**2, "g": 1024**3}[factor]
        text = f"{number}{factor}{ending}"
        if expected <= 2**63 - 1:
            self.assertEqual(kinds.BYTES.convert(text), expected)


class OtherKindTests(SynchronousTestCase):
    def test_booleans(self) -> None:
        self.assertIs(kinds.BOOLEAN.convert("true"), True)
        self.assertIs(kinds.BOOLEAN.convert("FALSE"), False)
        for text in ("1", "0", "yes", "", "tru"):
            self.assertRaises(ValueError, kinds.BOOLEAN.convert, text)

    def test_integers(self) -> None:
        kind = kinds.integer(0, 100, -1)
        self.assertEqual([kind.convert(text) for text in ("0", "100", "-1", "+7")], [0, 100, -1, 7])
        for text in ("101", "-2", "1.0", "", "x", "1_0", "٣", "0x1", "9" * 5000):
            with self.subTest(text=text[:9]):
                self.assertRaises(ValueError, kind.convert, text)
        self.assertEqual(kind.expected, "a whole number from 0 to 100, or -1")

    def test_decimals(self) -> None:
        kind = kinds.decimal(0, 1)
        self.assertEqual([kind.convert(text) for text in ("0", ".5", "1.0", "1e-1")], [0.0, 0.5, 1.0, 0.1])
        for text in ("1.1", "-0.1", "nan", "inf", "", "1e999", "0,5"):
            self.assertRaises(ValueError, kind.convert, text)
        self.assertRaises(ValueError, kinds.decimal(0).convert, "1e999")

    def test_choices(self) -> None:
        kind = kinds.choice("DROP", "FAIL")
        self.assertEqual(kind.convert("drop"), "DROP")
        self.assertRaises(ValueError, kind.convert, "PAGE")
        self.assertEqual(kinds.ROUTING_TYPE.convert("anycast"), 1)

    def test_the_rest(self) -> None:
        self.assertEqual(kinds.NAMES.convert(" a, b ,,c"), {"a", "b", "c"})
        self.assertEqual(kinds.POWER_OF_TWO.convert("8192"), 8192)
        for kind, text in ((kinds.POWER_OF_TWO, "8191"), (kinds.PATTERN, "("), (kinds.FILLED_TEXT, ""), (kinds.characters(2), "(")):
            self.assertRaises(ValueError, kind.convert, text)
        self.assertIsNone(kinds.OPTIONAL_TEXT.convert(""))

    @given(st.text(max_size=12))
    def test_any_text_is_a_value_or_a_value_error(self, text: str) -> None:
        every = [kind for kind in vars(kinds).values() if isinstance(kind, kinds.Kind)]
        for kind in every:
            try:
                kind.convert(text)
            except ValueError:
                pass
        self.assertGreater(len(every), 20)
