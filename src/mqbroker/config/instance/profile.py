"""artemis.profile: the shell file in which an instance sets its variables, read without a shell.

Understood are assignments, ``$name`` and ``${name}`` (also ``${name:-default}``), comments, and ``if`` with a test such as
``[ -z "$name" ]``, ``[ -n "$name" ]`` or ``[ "$1" = "run" ]``.  A line that needs a shell is left out and told.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

_ASSIGNMENT = re.compile(r"(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.DOTALL)
_VARIABLE = re.compile(r"\$(?:\{([A-Za-z_][A-Za-z0-9_]*|[0-9])(?::?-([^}]*))?\}|([A-Za-z_][A-Za-z0-9_]*|[0-9]))")
_TEST = re.compile(r"if\s+\[+\s*(.*?)\s*\]+\s*;?\s*(then)?\s*:?\s*")
_IGNORED = re.compile(r"(then|:|set\s|export\s+[A-Za-z_][A-Za-z0-9_ ]*$|unset\s|ulimit\s|umask\s)")

Warn = Callable[[int, str], None]
"""Called with a line number and a sentence."""


class NeedsShellError(ValueError):
    """A word that only a shell could expand."""


def read_profile(text: str, variables: Mapping[str, str], warn: Warn) -> dict[str, str]:
    """The variables after the profile ran as for ``artemis run``; ``variables`` are the variables before."""
    result = dict(variables)
    taken: list[bool | None] = []  # for each open "if": whether this branch runs; None: unknown
    for line, statement in _statements(text):
        if _conditional(statement, result, taken, line, warn):
            continue
        if not all(taken):
            continue
        match = _ASSIGNMENT.fullmatch(statement)
        if match is None:
            if not _IGNORED.match(statement):
                warn(line, f"this line needs a shell and has no effect: {statement[:80]}")
            continue
        try:
            result[match[1]] = expand(match[2], result)
        except NeedsShellError as error:
            warn(line, f"{match[1]} is not set: {error}")
    return result


def expand(text: str, variables: Mapping[str, str]) -> str:
    """The value of a shell word.  Raises :class:`NeedsShellError`."""
    result: list[str] = []
    position = 0
    while position < len(text):
        character = text[position]
        if character == "'":
            end = text.find("'", position + 1)
            if end < 0:
                raise NeedsShellError("a quote has no end")
            result.append(text[position + 1 : end])
            position = end + 1
        elif character == '"':
            end = _closing_quote(text, position)
            result.append(_expanded(text[position + 1 : end], variables))
            position = end + 1
        elif character.isspace() or character in ";#":
            break
        else:
            end = position
            while end < len(text) and text[end] not in "'\" \t\n;":
                end += 2 if text[end] == "\\" else 1
            result.append(_expanded(text[position:end], variables))
            position = end
    return "".join(result)


def system_properties(arguments: str) -> dict[str, str]:
    """The ``-Dname=value`` among Java's arguments."""
    found: dict[str, str] = {}
    for word in arguments.split():
        if word.startswith("-D") and len(word) > 2:
            name, _, value = word[2:].partition("=")
            found[name] = value
    return found


def _statements(text: str) -> list[tuple[int, str]]:
    """Lines without comments; one with an open quote or a backslash at its end goes on in the next."""
    statements: list[tuple[int, str]] = []
    gathered, start = "", 0
    for number, raw in enumerate(text.split("\n"), 1):
        line = raw.rstrip("\r")
        if not gathered:
            line = line.strip()
            if not line or line.startswith("#"):
                continue
            start = number
        gathered += line
        if gathered.endswith("\\") and not gathered.endswith("\\\\"):
            gathered = gathered[:-1]
            continue
        if _open_quote(gathered):
            gathered += "\n"
            continue
        statements.append((start, gathered.strip()))
        gathered = ""
    if gathered:
        statements.append((start, gathered.strip()))
    return statements


def _open_quote(text: str) -> bool:
    quote, position = "", 0
    while position < len(text):
        character = text[position]
        if quote == "'":
            quote = "" if character == "'" else quote
        elif character == "\\":
            position += 1
        elif quote:
            quote = "" if character == '"' else quote
        elif character in "'\"":
            quote = character
        elif character == "#" and (position == 0 or text[position - 1].isspace()):
            return False
        position += 1
    return bool(quote)


def _closing_quote(text: str, start: int) -> int:
    position = start + 1
    while position < len(text) and text[position] != '"':
        position += 2 if text[position] == "\\" else 1
    if position >= len(text):
        raise NeedsShellError("a quote has no end")
    return position


def _expanded(text: str, variables: Mapping[str, str]) -> str:
    if "`" in text or "$(" in text:
        raise NeedsShellError("it runs a command")
    plain = _VARIABLE.sub(lambda match: variables.get(match[1] or match[3]) or match[2] or "", text)
    return re.sub(r"\\([$`\"\\])", r"\1", plain)


def _conditional(statement: str, variables: Mapping[str, str], taken: list[bool | None], line: int, warn: Warn) -> bool:
    """Follow ``if``, ``else`` and ``fi``; false when the statement is none of them."""
    match = _TEST.fullmatch(statement)
    if match is not None:
        outcome = _outcome(match[1], variables)
        if outcome is None:
            warn(line, f"it cannot be told whether this is true, so what depends on it has no effect: {statement[:80]}")
        taken.append(outcome)
    elif statement in ("fi", "fi;") and taken:
        taken.pop()
    elif statement == "else" and taken:
        taken[-1] = None if taken[-1] is None else not taken[-1]
    elif statement.startswith("elif ") and taken:
        taken[-1] = None
    else:
        return False
    return True


def _outcome(test: str, variables: Mapping[str, str]) -> bool | None:
    parts = re.findall(r'"[^"]*"|\'[^\']*\'|\S+', test)
    known = {"1": "run", **variables}
    try:
        words = [part if part in ("-z", "-n", "=", "==", "!=", "!") else expand(part, known) for part in parts]
    except NeedsShellError:
        return None
    if len(words) == 2 and words[0] in ("-z", "-n"):
        return (words[1] == "") == (words[0] == "-z")
    if len(words) == 3 and words[1] in ("=", "==", "!="):
        return (words[0] == words[2]) == (words[1] != "!=")
    return None
