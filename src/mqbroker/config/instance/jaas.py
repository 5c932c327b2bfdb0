"""login.config: the login modules that authenticate users.

JAAS syntax: ``name { class flag option="value" …; … };`` with comments of ``//`` and ``/* */``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from mqbroker.config.problems import did_you_mean

FLAGS = ("required", "requisite", "sufficient", "optional")

_TOKEN = re.compile(
    r"""(?P<blank>\s+|//[^\n]*|/\*.*?\*/)
    |(?P<open_comment>/\*)
    |(?P<quoted>"(?:[^"\\\n]|\\.)*")
    |(?P<open_quote>")
    |(?P<sign>[{}=;])
    |(?P<word>[^\s{}=;"]+)""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)


class JaasError(ValueError):
    """The text is not a login configuration; ``line`` counts from 1."""

    def __init__(self, line: int, text: str) -> None:
        super().__init__(f"line {line}: {text}")
        self.line = line
        self.text = text


@dataclass(frozen=True, slots=True)
class LoginModule:
    """One step of a login.  ``flag`` is required, requisite, sufficient or optional, with their JAAS meaning."""

    class_name: str
    flag: str
    options: dict[str, str] = field(default_factory=dict)
    line: int = 0

    @property
    def simple_name(self) -> str:
        """The class name without its package."""
        return self.class_name.rpartition(".")[2]


@dataclass(frozen=True, slots=True)
class _Token:
    text: str
    line: int
    is_word: bool


def parse_login_config(text: str) -> dict[str, tuple[LoginModule, ...]]:
    """The modules by the name of their entry, in their order.  Raises :class:`JaasError`."""
    return _Parser(_tokens(text)).entries()


def _tokens(text: str) -> list[_Token]:
    tokens: list[_Token] = []
    line = 1
    for match in _TOKEN.finditer(text):
        found = match[0]
        if match.lastgroup == "open_comment":
            raise JaasError(line, "a comment has no end: expected */")
        if match.lastgroup == "open_quote":
            raise JaasError(line, 'a quoted value has no end: expected " on the same line')
        if match.lastgroup == "quoted":
            tokens.append(_Token(_ESCAPE.sub(r"\1", found[1:-1]), line, True))
        elif match.lastgroup != "blank":
            tokens.append(_Token(found, line, match.lastgroup == "word"))
        line += found.count("\n")
    tokens.append(_Token("", line, False))
    return tokens


class _Parser:
    def __init__(self, tokens: list[_Token]) -> None:
        self._tokens = tokens
        self._at = 0

    def entries(self) -> dict[str, tuple[LoginModule, ...]]:
        entries: dict[str, tuple[LoginModule, ...]] = {}
        while self._peek().text or self._peek().is_word:
            name = self._word("the name of an entry")
            if name.text in entries:
                raise JaasError(name.line, f"there is a second entry {name.text}")
            self._sign("{", f"after {name.text}")
            modules: list[LoginModule] = []
            while self._peek().text != "}":
                modules.append(self._module())
            self._sign("}", f"at the end of {name.text}")
            self._sign(";", f"after the end of {name.text}")
            if not modules:
                raise JaasError(name.line, f"the entry {name.text} has no login module")
            entries[name.text] = tuple(modules)
        return entries

    def _module(self) -> LoginModule:
        class_name = self._word("the class of a login module")
        flag = self._word(f"one of {', '.join(FLAGS)}")
        if flag.text.lower() not in FLAGS:
            hint = did_you_mean(flag.text, FLAGS, f": expected {', '.join(FLAGS)}")
            raise JaasError(flag.line, f"{flag.text} is not a flag{hint}")
        options: dict[str, str] = {}
        while self._peek().text != ";":
            key = self._word("an option, or ';'")
            self._sign("=", f"after the option {key.text}")
            options[key.text] = self._word(f"the value of {key.text}").text
        self._sign(";", f"after {class_name.text}")
        return LoginModule(class_name.text, flag.text.lower(), options, class_name.line)

    def _peek(self) -> _Token:
        return self._tokens[self._at]

    def _word(self, expected: str) -> _Token:
        token = self._tokens[self._at]
        if not token.is_word:
            raise JaasError(token.line, f"expected {expected}, found {token.text or 'the end'}")
        self._at += 1
        return token

    def _sign(self, sign: str, where: str) -> None:
        token = self._tokens[self._at]
        if token.text != sign or token.is_word:
            raise JaasError(token.line, f"expected '{sign}' {where}, found {token.text or 'the end'}")
        self._at += 1
