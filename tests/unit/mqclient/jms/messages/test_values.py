"""Java types in Python: what goes in, what comes out, and which conversions JMS allows."""

from __future__ import annotations

import math
import struct

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from mqclient.jms.exceptions import MessageFormatException
from mqclient.jms.messages import values
from mqclient.jms.messages.values import Byte, Char, Float, Long, Short
from mqclient.wire import properties as types
from mqclient.wire.properties import TypedValue

SCALARS: st.SearchStrategy[TypedValue] = st.one_of(
    st.tuples(st.just(types.NULL), st.none()),
    st.tuples(st.just(types.BOOLEAN), st.booleans()),
    st.tuples(st.just(types.BYTE), st.integers(-(2**7), 2**7 - 1)),
    st.tuples(st.just(types.SHORT), st.integers(-(2**15), 2**15 - 1)),
    st.tuples(st.just(types.INT), st.integers(-(2**31), 2**31 - 1)),
    st.tuples(st.just(types.LONG), st.integers(-(2**63), 2**63 - 1)),
    st.tuples(st.just(types.FLOAT), st.floats(width=32, allow_nan=False)),
    st.tuples(st.just(types.DOUBLE), st.floats(allow_nan=False)),
    st.tuples(st.just(types.STRING), st.text()),
    st.tuples(st.just(types.BYTES), st.binary()),
    st.tuples(st.just(types.CHAR), st.integers(0, 0xFFFF)),
)


class PythonValueTests(SynchronousTestCase):
    @given(SCALARS)
    def test_a_value_that_is_passed_on_keeps_its_type(self, entry: TypedValue) -> None:
        self.assertEqual(values.typed(values.untyped(entry)), entry)

    def test_plain_values(self) -> None:
        for value, kind in [
            (True, types.BOOLEAN),
            (1, types.INT),
            (-(2**31), types.INT),
            (2**31, types.LONG),
            (1.0, types.DOUBLE),
            ("x", types.STRING),
            (bytearray(b"x"), types.BYTES),
            (None, types.NULL),
        ]:
            self.assertEqual(values.typed(value)[0], kind, value)

    def test_wrappers(self) -> None:
        for value, kind in [(Byte(1), types.BYTE), (Short(1), types.SHORT), (Long(1), types.LONG), (Float(1), types.FLOAT)]:
            self.assertEqual(values.typed(value), (kind, 1))
            self.assertEqual(value + 1, 2)
        self.assertEqual(values.typed(Char("€")), (types.CHAR, 0x20AC))

    def test_values_that_do_not_fit(self) -> None:
        for make in (
            lambda: Byte(128),
            lambda: Short(-(2**15) - 1),
            lambda: Long(2**63),
            lambda: Float(1e39),
            lambda: Char("ab"),
            lambda: Char("😀"),
            lambda: values.typed(2**63),
            lambda: values.typed(object()),
            lambda: values.exactly(types.INT, 2**31),
            lambda: values.exactly(types.INT, True),
            lambda: values.exactly(types.INT, "1"),
            lambda: values.exactly(types.STRING, 1),
            lambda: values.exactly(types.DOUBLE, "1"),
            lambda: values.exactly(types.CHAR, "ab"),
            lambda: values.exactly(types.BYTES, "ab"),
        ):
            self.assertRaises(MessageFormatException, make)

    def test_a_format_error_is_a_value_error(self) -> None:
        self.assertRaises(ValueError, Byte, 1000)

    def test_a_float_is_rounded_at_once(self) -> None:
        self.assertEqual(Float(0.1), struct.unpack(">f", struct.pack(">f", 0.1))[0])


ALLOWED = {
    "boolean": {types.BOOLEAN, types.STRING, types.NULL},
    "byte": {types.BYTE, types.STRING},
    "short": {types.BYTE, types.SHORT, types.STRING},
    "int": {types.BYTE, types.SHORT, types.INT, types.STRING},
    "long": {types.BYTE, types.SHORT, types.INT, types.LONG, types.STRING},
    "float": {types.FLOAT, types.STRING},
    "double": {types.FLOAT, types.DOUBLE, types.STRING},
    "string": set(range(12)) - {1, types.BYTES},
    "char": {types.CHAR},
    "bytes": {types.BYTES, types.NULL},
}
"""The conversion table of the JMS specification: what may be read as what."""
READERS = {
    "boolean": values.to_boolean,
    "byte": lambda entry: values.to_integer(entry, types.BYTE),
    "short": lambda entry: values.to_integer(entry, types.SHORT),
    "int": lambda entry: values.to_integer(entry, types.INT),
    "long": lambda entry: values.to_integer(entry, types.LONG),
    "float": lambda entry: values.to_float(entry, types.FLOAT),
    "double": lambda entry: values.to_float(entry, types.DOUBLE),
    "string": values.to_text,
    "char": values.to_char,
    "bytes": values.to_bytes,
}
SAMPLES: dict[int, TypedValue] = {
    types.NULL: (types.NULL, None),
    types.BOOLEAN: (types.BOOLEAN, True),
    types.BYTE: (types.BYTE, 1),
    types.SHORT: (types.SHORT, 1),
    types.INT: (types.INT, 1),
    types.LONG: (types.LONG, 1),
    types.FLOAT: (types.FLOAT, 1.0),
    types.DOUBLE: (types.DOUBLE, 1.0),
    types.STRING: (types.STRING, "1"),
    types.CHAR: (types.CHAR, 0x31),
    types.BYTES: (types.BYTES, b"1"),
}


class ConversionTests(SynchronousTestCase):
    def test_the_table_of_the_specification(self) -> None:
        for name, reader in READERS.items():
            for kind, sample in SAMPLES.items():
                if kind in ALLOWED[name]:
                    reader(sample)
                else:
                    with self.assertRaises(MessageFormatException, msg=f"{values.NAMES[kind]} as {name}"):
                        reader(sample)

    def test_missing_values(self) -> None:
        self.assertFalse(values.to_boolean(None))
        self.assertIsNone(values.to_text(None))
        self.assertIsNone(values.to_bytes(None))
        self.assertRaises(MessageFormatException, values.to_integer, None, types.INT)
        self.assertRaises(MessageFormatException, values.to_float, None, types.DOUBLE)

    def test_texts(self) -> None:
        self.assertTrue(values.to_boolean((types.STRING, "TRUE")))
        self.assertFalse(values.to_boolean((types.STRING, "yes")))
        self.assertEqual(values.to_integer((types.STRING, "-128"), types.BYTE), -128)
        self.assertEqual(values.to_float((types.STRING, "2.5"), types.FLOAT), 2.5)
        for text in ("", "x", "128"):
            self.assertRaises(MessageFormatException, values.to_integer, (types.STRING, text), types.BYTE)
        self.assertRaises(MessageFormatException, values.to_float, (types.STRING, "x"), types.DOUBLE)

    def test_floats_print_as_in_java(self) -> None:
        for value, text in [
            (1.0, "1.0"),
            (-0.0, "-0.0"),
            (0.0, "0.0"),
            (100.0, "100.0"),
            (3.25, "3.25"),
            (1e7, "1.0E7"),
            (9999999.0, "9999999.0"),
            (0.001, "0.001"),
            (0.0001, "1.0E-4"),
            (1.5e300, "1.5E300"),
            (math.inf, "Infinity"),
            (-math.inf, "-Infinity"),
            (math.nan, "NaN"),
        ]:
            self.assertEqual(values.float_text(value), text)
        self.assertEqual(values.to_text((types.FLOAT, float(Float(0.1)))), "0.1")
        self.assertEqual(values.to_text((types.DOUBLE, 0.1)), "0.1")

    @given(st.floats(allow_nan=False, allow_infinity=False))
    def test_a_printed_float_reads_back(self, value: float) -> None:
        self.assertEqual(float(values.float_text(value)), value)
