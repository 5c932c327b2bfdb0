"""The values of properties, checked by the table: typed, or refused with a reason."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mqbroker.config.imq.files import PREFIX
from mqbroker.config.imq.layers import COMMAND_LINE, DEFAULT, Layers, Setting
from mqbroker.config.imq.table import KNOWN_NAMES, ImqProperty, find_property, is_secret
from mqbroker.config.problems import Findings, did_you_mean
from mqbroker.config.schema.model import Support

_JAVA = ("java.", "javax.", "com.sun.", ".level", "org.")
"""Begin names that OpenMQ's files may hold for Java itself."""


@dataclass(frozen=True, slots=True)
class Checked:
    """The typed values of all properties that have one, with where they come from."""

    layers: Layers
    values: Mapping[str, Any]

    def __getitem__(self, name: str) -> Any:
        """The value of a property that has a default."""
        return self.values[name]

    def get(self, name: str, otherwise: Any = None) -> Any:
        """The value of a property; ``otherwise`` where nobody has given one, or an empty one."""
        value = self.values.get(name)
        return otherwise if value is None or value == "" else value

    def place(self, name: str) -> tuple[str, int]:
        """File and line of a value, for messages."""
        setting = self.layers.settings.get(name)
        return ("", 0) if setting is None else place_of(setting)


def place_of(setting: Setting) -> tuple[str, int]:
    """File and line, or the layer, for messages."""
    return setting.origin.file or setting.origin.layer, setting.origin.line


def check_layers(layers: Layers, findings: Findings) -> Checked:
    """Check every property that somebody has given; errors and warnings go to ``findings``."""
    values: dict[str, Any] = {}
    for setting in layers:
        if not setting.name.startswith(PREFIX):
            _foreign(setting, findings)
            continue
        entry = find_property(setting.name)
        file, line = place_of(setting)
        if entry is None:
            hint = did_you_mean(setting.name, KNOWN_NAMES, ": expected a property of Open Message Queue")
            findings.error(file, line, f"{setting.name} is not known{hint}")
            continue
        value = _value(setting, entry, findings)
        if value is not None:
            values[setting.name] = value
    return Checked(layers, values)


def _foreign(setting: Setting, findings: Findings) -> None:
    if setting.origin.layer not in COMMAND_LINE and not setting.name.startswith(_JAVA):
        findings.warn(*place_of(setting), f"{setting.name} is no property of Open Message Queue and has no effect")


def _value(setting: Setting, entry: ImqProperty, findings: Findings) -> Any:
    file, line = place_of(setting)
    item, text = entry.item, setting.value or entry.default
    if text == "":
        return ""
    shown = f"{setting.name}={'****' if is_secret(setting.name, text) else text}"
    try:
        value = item.kind.convert(text)
    except ValueError:
        findings.error(file, line, f"{shown}: expected {item.kind.expected}")
        return None
    if setting.origin.layer == DEFAULT or item.support is Support.HONOURED or item.unless is None or value in item.unless:
        return value
    if item.support is Support.REFUSED:
        findings.error(file, line, f"{shown} is refused: {item.reason}")
    else:
        findings.warn(file, line, f"{shown} has no effect: {item.reason}")
    return value
