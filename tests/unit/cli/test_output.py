from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from mqbroker.cli.output import table, wrap


class TableTests(SynchronousTestCase):
    def test_two_line_titles_and_centred_numbers(self) -> None:
        text = table(["NAME", "ADDRESS", "MESSAGE_COUNT"], [["orders", "a", "5"]])
        self.assertEqual(text.split("\n"), ["|NAME  |ADDRESS|MESSAGE|", "|      |       | COUNT |", "|orders|a      |   5   |"])

    def test_one_line_titles_are_flush_left(self) -> None:
        text = table(["NAME", "MESSAGE_COUNT"], [["orders", "5"]], one_line_header=True)
        self.assertEqual(text.split("\n"), ["|NAME  |MESSAGE_COUNT|", "|orders|5            |"])

    def test_long_cells_go_on_in_the_next_line(self) -> None:
        text = table(["NAME", "ADDRESS"], [["abcdefghij", "x"]], max_width=6)
        self.assertEqual(text.split("\n"), ["|NAME  |ADDRESS|", "|abcdef|x      |", "|  ghij|       |"])

    def test_without_rows_there_is_the_header(self) -> None:
        self.assertEqual(table(["NAME", "ADDRESS"], []), "|NAME|ADDRESS|")

    @given(
        st.lists(st.lists(st.text(st.characters(exclude_categories=["C", "Z"])), min_size=3, max_size=3), max_size=4), st.integers(-1, 9)
    )
    def test_all_lines_have_the_same_width(self, rows: list[list[str]], width: int) -> None:
        lines = table(["A", "B_C", "D"], rows, max_width=width).split("\n")
        self.assertEqual({len(line) for line in lines}, {len(lines[0])})

    @given(st.text(st.characters(exclude_characters="\n ")), st.integers(3, 20))
    def test_wrapping_loses_nothing(self, text: str, width: int) -> None:
        lines = wrap(text, width)
        self.assertEqual("".join(line.removeprefix("  ") for line in lines), text)
        self.assertTrue(all(len(line) <= width for line in lines))
