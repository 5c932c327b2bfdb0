"""Changes of a properties file that leave everything else in it as it is."""

from __future__ import annotations

from mqbroker.config.properties.properties import LINE_ENDS, parse_properties


def with_property(text: str, name: str, value: str) -> str:
    """The properties file ``text`` with this value; the last line of a property that is there is replaced, with its continuations."""
    line = f"{name}={_escaped(value)}"
    found = [each.line for each in parse_properties(text) if each.key == name]
    lines = LINE_ENDS.split(text)
    if not lines[-1]:
        lines.pop()
    if not found:
        if lines and _is_continued(lines[-1]):
            lines.append("")
        return "\n".join([*lines, line]) + "\n"
    start = end = found[-1] - 1
    while end < len(lines) - 1 and _is_continued(lines[end]):
        end += 1
    return "\n".join([*lines[:start], line, *lines[end + 1 :]]) + "\n"


def _is_continued(line: str) -> bool:
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def _escaped(value: str) -> str:
    text = value.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")
    return "\\" + text if text[:1] in (" ", "\t", "\f") else text
