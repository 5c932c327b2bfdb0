"""The sources of a property's value: files and options in layers, of which the highest one that has the property counts.

From low to high: the defaults, the properties of the installation, the cluster file, the instance's ``config.properties``, ``-D`` of the
command line, its other options.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from urllib.parse import unquote

from mqbroker.config.imq.table import CLUSTER_URL, DEFAULTS
from mqbroker.config.problems import Findings
from mqbroker.config.properties.properties import PropertiesError, parse_properties
from mqbroker.config.properties.substitution import SubstitutionError, substitute

ReadFile = Callable[[str], bytes]

DEFAULT = "default"
INSTALLATION = "installation"
CLUSTER_FILE = "cluster file"
INSTANCE = "instance"
DEFINITION = "-D"
OPTION = "command line"
COMMAND_LINE = (DEFINITION, OPTION)


@dataclass(frozen=True, slots=True)
class Origin:
    """The layer that gives a value, and its place there; ``line`` 0 = no line."""

    layer: str
    file: str = ""
    line: int = 0

    def __str__(self) -> str:
        if not self.file:
            return self.layer
        return f"{self.layer} ({self.file}:{self.line})" if self.line else f"{self.layer} ({self.file})"


@dataclass(frozen=True, slots=True)
class Setting:
    """A property with its value, and who gives it."""

    name: str
    value: str
    origin: Origin


@dataclass(frozen=True, slots=True)
class Layers:
    """The settings that count, by name, and all files that were read: the text of a value is not checked yet."""

    settings: Mapping[str, Setting]
    cluster_file: str | None = None
    """The path of the file that ``imq.cluster.url`` names."""

    def text(self, name: str) -> str:
        """The value of a property, or its default; empty without either."""
        setting = self.settings.get(name)
        return setting.value if setting is not None else ""

    def given(self, name: str) -> bool:
        """Does anything but the default give the property?"""
        setting = self.settings.get(name)
        return setting is not None and setting.origin.layer != DEFAULT

    def from_command_line(self, name: str) -> bool:
        """Does a definition or another option of the command line give the property?"""
        setting = self.settings.get(name)
        return setting is not None and setting.origin.layer in COMMAND_LINE

    def __iter__(self) -> Iterator[Setting]:
        return iter(self.settings.values())


@dataclass(frozen=True, slots=True)
class Sources:
    """The places to look at.  ``installation`` and ``instance`` are files that need not exist; ``variables`` stand for ``${name}``."""

    instance: str
    installation: str | None = None
    definitions: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, str] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)


def read_layers(sources: Sources, read_file: ReadFile, findings: Findings) -> Layers:
    """Lay all files and options over each other.  An unreadable cluster file is an error, other files may be missing."""
    below = [_defaults()]
    if sources.installation is not None:
        below.append(_file(INSTALLATION, sources.installation, read_file, findings, needed=False))
    above = [
        _file(INSTANCE, sources.instance, read_file, findings, needed=False),
        {name: Setting(name, value, Origin(DEFINITION)) for name, value in sources.definitions.items()},
        {name: Setting(name, value, Origin(OPTION)) for name, value in sources.options.items()},
    ]
    merged = _merged([*below, *above])
    url = merged.get(CLUSTER_URL)
    path = None
    if url is not None and (text := _expanded(url, merged, sources.variables, findings)):
        path = _path(text, url.origin, findings)
        if path is not None:
            merged = _merged([*below, _file(CLUSTER_FILE, path, read_file, findings, needed=True), *above])
    return Layers(
        {name: Setting(name, _expanded(setting, merged, sources.variables, findings), setting.origin) for name, setting in merged.items()},
        path,
    )


def _merged(layers: list[dict[str, Setting]]) -> dict[str, Setting]:
    merged: dict[str, Setting] = {}
    for layer in layers:
        merged |= layer
    return merged


def _defaults() -> dict[str, Setting]:
    return {name: Setting(name, value, Origin(DEFAULT)) for name, value in DEFAULTS.items()}


def _file(layer: str, path: str, read_file: ReadFile, findings: Findings, *, needed: bool) -> dict[str, Setting]:
    try:
        entries = parse_properties(read_file(path))
    except OSError as error:
        if needed or not isinstance(error, FileNotFoundError):
            findings.error(path, 0, f"cannot read the {layer}: {error.strerror or error}")
        return {}
    except PropertiesError as error:
        findings.error(path, error.line, error.text)
        return {}
    return {each.key: Setting(each.key, each.value.strip(), Origin(layer, path, each.line)) for each in entries}


def _path(url: str, origin: Origin, findings: Findings) -> str | None:
    scheme, colon, rest = url.partition(":")
    if not colon or scheme.lower() != "file":
        text = f"{CLUSTER_URL}={url}: only files can be read; expected file:/path/of/cluster.properties"
        findings.error(origin.file or origin.layer, origin.line, text)
        return None
    if rest.startswith("//"):
        host, _, below = rest[2:].partition("/")
        if host not in ("", "localhost"):
            findings.error(
                origin.file or origin.layer, origin.line, f"{CLUSTER_URL}={url}: the file is on the host {host}: expected file:/path"
            )
            return None
        rest = "/" + below
    return unquote(rest)


def _expanded(setting: Setting, merged: Mapping[str, Setting], variables: Mapping[str, str], findings: Findings) -> str:
    if "${" not in setting.value:
        return setting.value
    origin = setting.origin
    file = origin.file or origin.layer
    known = {name: other.value for name, other in merged.items()} | dict(variables)
    try:
        return substitute(
            setting.value, known, lambda name: findings.warn(file, origin.line, f"{setting.name}: ${{{name}}} has no value: it is empty")
        )
    except SubstitutionError as error:
        findings.error(file, origin.line, f"{setting.name}: {error}")
        return ""
