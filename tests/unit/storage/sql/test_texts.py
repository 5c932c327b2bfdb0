"""Names as columns of text have them."""

from __future__ import annotations

from unittest import TestCase

from hypothesis import given as for_all
from hypothesis import strategies as st

from mqbroker.storage.sql.texts import given, kept


class TextTests(TestCase):
    def test_usual_names_stay_as_they_are(self) -> None:
        self.assertEqual(kept("a.b#ü\U0001f600"), "a.b#ü\U0001f600")

    @for_all(st.text(st.characters()) | st.text("\\\0\ud800\udc000d8f"))
    def test_every_text_comes_back_and_is_one_that_databases_take(self, text: str) -> None:
        column = kept(text)
        self.assertEqual(given(column), text)
        column.encode()
        self.assertNotIn("\0", column)
