"""login.config: modules, flags and options."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from mqbroker.config.instance.jaas import JaasError, LoginModule, parse_login_config

PLAIN_ENTRY = 'activemq {\n  a.B required user="u" ;\n};\n'


class LoginConfigTests(SynchronousTestCase):
    def test_modules(self) -> None:
        text = """
        /* two
           entries */
        activemq {  // the usual one
           a.Properties SUFFICIENT debug=true reload="true" org.x.user="a \\"b\\" = {;}.properties";
           a.Guest optional;
        };
        "other entry" { b.C required; };
        """
        first = LoginModule("a.Properties", "sufficient", {"debug": "true", "reload": "true", "org.x.user": 'a "b" = {;}.properties'}, 5)
        expected = {"activemq": (first, LoginModule("a.Guest", "optional", {}, 6)), "other entry": (LoginModule("b.C", "required", {}, 8),)}
        self.assertEqual(parse_login_config(text), expected)
        self.assertEqual(first.simple_name, "Properties")

    def test_mistakes(self) -> None:
        for text, line, expected in (
            ("a {\n b.C requird; };", 2, "did you mean required?"),
            ("a {\n b.C; };", 2, "expected one of required"),
            ("a {\n b.C required x; };", 2, "expected '=' after the option x"),
            ("a {\n b.C required x=; };", 2, "expected the value of x"),
            ("a {\n b.C required\n", 3, "expected an option, or ';'"),
            ("a {\n b.C required; }", 2, "expected ';' after the end of a"),
            ("a { };", 1, "has no login module"),
            ('a {\n b.C required x="y; };', 2, "has no end"),
            ("\n/* x", 2, "a comment has no end"),
            (PLAIN_ENTRY + PLAIN_ENTRY, 4, "second entry activemq"),
            ("= x", 1, "expected the name of an entry"),
        ):
            with self.subTest(text=text):
                error = self.assertRaises(JaasError, parse_login_config, text)
                self.assertEqual(error.line, line)
                self.assertIn(expected, error.text)

    @given(st.text(alphabet='a{};="/*\n ', max_size=30))
    def test_any_text_is_read_or_refused(self, text: str) -> None:
        try:
            parse_login_config(text)
        except JaasError:
            pass
