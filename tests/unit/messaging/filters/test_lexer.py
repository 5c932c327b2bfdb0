"""From the text of a filter to its tokens."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.messaging.filters.lexer import END, FLOAT, INTEGER, NAME, STRING, SYMBOL, TEXT_SHOWN, Lexer
from mqclient.errors import InvalidFilterExpressionError


def tokens(text: str, hyphenated: bool = False) -> list[tuple[str, str]]:
    lexer = Lexer(text, 0, len(text), hyphenated)
    found = []
    while lexer.token.kind != END:
        token = lexer.advance()
        found.append((token.kind, token.text))
    return found


class TokenTests(SynchronousTestCase):
    def test_keywords_are_symbols_in_capitals_and_names_keep_their_case(self) -> None:
        self.assertEqual(tokens("not Colour"), [(SYMBOL, "NOT"), (NAME, "Colour")])

    def test_two_quotes_in_a_string_are_one(self) -> None:
        self.assertEqual(tokens("'it''s'"), [(STRING, "it's")])
        self.assertEqual(tokens('"a ""b"""'), [(NAME, 'a "b"')])

    def test_numbers_of_every_form(self) -> None:
        for kind, texts in ((INTEGER, ("0", "017", "0xFFL", "12l")), (FLOAT, ("1.", ".5e-3", "7E2"))):
            for text in texts:
                self.assertEqual(tokens(text), [(kind, text)])

    def test_the_longest_operator_is_taken(self) -> None:
        self.assertEqual([text for _, text in tokens("a<>b<=c<d")], ["a", "<>", "b", "<=", "c", "<", "d"])

    def test_a_hyphen_is_part_of_a_name_only_when_names_may_have_hyphens(self) -> None:
        self.assertEqual(tokens("a-b"), [(NAME, "a"), (SYMBOL, "-"), (NAME, "b")])
        self.assertEqual(tokens("a-b", hyphenated=True), [(NAME, "a-b")])

    def test_comments_are_left_out(self) -> None:
        self.assertEqual(tokens("a /* b */ = -- c\n1"), [(NAME, "a"), (SYMBOL, "="), (INTEGER, "1")])

    def test_two_minus_signs_without_a_line_break_are_no_comment(self) -> None:
        self.assertEqual(tokens("1--2"), [(INTEGER, "1"), (SYMBOL, "-"), (SYMBOL, "-"), (INTEGER, "2")])

    def test_tokens_are_made_only_as_far_as_they_are_asked_for(self) -> None:
        lexer = Lexer("a = 'open", 0, 9, False)
        self.assertEqual(lexer.advance().text, "a")


class MistakeTests(SynchronousTestCase):
    def refusal(self, text: str) -> str:
        return str(self.assertRaises(InvalidFilterExpressionError, tokens, text))

    def test_a_mistake_is_told_with_its_place_counting_from_1(self) -> None:
        self.assertEqual(self.refusal("a = 'b"), "AMQ229020: Invalid filter: a = 'b (at character 5: expected a closing ' after this)")
        self.assertIn('at character 3: expected "<>"', self.refusal("a != 1"))
        self.assertIn("at character 1: expected */ after this", self.refusal("/* a"))
        self.assertIn("found '#'", self.refusal("#"))

    def test_of_a_long_filter_only_the_beginning_is_repeated(self) -> None:
        text = "#" * (TEXT_SHOWN + 1)
        self.assertIn(f": {'#' * TEXT_SHOWN}… (", self.refusal(text))

    def test_a_token_that_does_not_fit_is_named(self) -> None:
        def found(text: str) -> str:
            return str(Lexer(text, 0, len(text), False).expected("a value")).partition("expected ")[2]

        self.assertEqual(found(""), "a value, found the end)")
        self.assertEqual(found("'secret'"), "a value, found a string)")
        self.assertEqual(found("x" * 50), f'a value, found "{"x" * 40}…")')
