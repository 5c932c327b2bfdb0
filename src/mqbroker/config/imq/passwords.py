"""Passwords of properties: written there, or in the passfile; each may be masked."""

from __future__ import annotations

import posixpath
from collections.abc import Callable

from mqbroker.config.imq.checked import Checked
from mqbroker.config.imq.layers import ReadFile
from mqbroker.config.masking import DEFAULT_KEY, MaskingError, decode_masked, unwrap
from mqbroker.config.problems import Findings
from mqbroker.config.properties.properties import PropertiesError, parse_properties


class Passwords:
    """The passwords of one instance; ``etc`` is the folder that the passfile is relative to, ``find_key`` gives the key of masked ones.

    Errors go to ``findings``.
    """

    def __init__(
        self, checked: Checked, etc: str, read_file: ReadFile, findings: Findings, find_key: Callable[[], str] = lambda: DEFAULT_KEY
    ) -> None:
        self._checked = checked
        self._etc = etc
        self._read_file = read_file
        self._findings = findings
        self._find_key = find_key
        self._entries: dict[str, str] | None = None

    def get(self, name: str) -> str | None:
        """The password that the property ``name`` gives; None without one."""
        text = self._checked.get(name) or self._passfile().get(name)
        masked = None if text is None else unwrap(text)
        if masked is None:
            return text
        try:
            return decode_masked(masked, self._find_key())
        except MaskingError as error:
            self._findings.error(*self._checked.place(name), f"{name}: a masked password cannot be read: {error}")
            return ""

    def _passfile(self) -> dict[str, str]:
        if self._entries is None:
            self._entries = self._read()
        return self._entries

    def _read(self) -> dict[str, str]:
        checked = self._checked
        if not checked["imq.passfile.enabled"]:
            return {}
        path = posixpath.join(self._etc, checked.get("imq.passfile.dirpath", ""), checked["imq.passfile.name"])
        try:
            return {each.key: each.value for each in parse_properties(self._read_file(path))}
        except (OSError, PropertiesError) as error:
            self._findings.error(path, 0, f"the passfile cannot be read: {error}")
            return {}
