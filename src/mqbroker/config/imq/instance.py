"""An instance of Open Message Queue: an ordinary instance folder with ``props/config.properties``."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from mqbroker.config.imq.checked import Checked, check_layers
from mqbroker.config.imq.files import PROPERTIES_FILE
from mqbroker.config.imq.layers import Layers, Sources, read_layers
from mqbroker.config.imq.made import Instance, make_home_broker
from mqbroker.config.masking import verify_password
from mqbroker.config.model.configuration import Configuration
from mqbroker.config.problems import Findings
from mqbroker.config.properties.properties import PropertiesError, parse_properties

ReadFile = Callable[[str], bytes]

USERS = ("admin", "guest")
"""The users of a new instance, whose passwords are their names."""


@dataclass(frozen=True, slots=True)
class ImqStart:
    """How an instance is started: the definitions of ``-D``, the other options as properties, the file of the installation.

    ``resets`` are the things to forget at this start, ``backup`` and ``restore`` the file of the change record to write or to read;
    ``environment`` are the variables that values may name.
    """

    definitions: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, str] = field(default_factory=dict)
    installation: str | None = None
    resets: tuple[str, ...] = ()
    backup: str | None = None
    restore: str | None = None
    environment: Mapping[str, str] = field(default_factory=dict)

    def again(self) -> ImqStart:
        """The next start of the same process: what was to be done once is not done again."""
        return replace(self, resets=(), backup=None, restore=None)


@dataclass(frozen=True, slots=True)
class ImqInstance:
    """The properties of a running instance, and how to read them again."""

    folder: str
    etc: str
    host_names: Sequence[str]
    start: ImqStart
    checked: Checked

    @property
    def file(self) -> str:
        """The instance's own properties, which ``update bkr`` writes."""
        return posixpath.join(self.folder, PROPERTIES_FILE)

    @property
    def layers(self) -> Layers:
        return self.checked.layers


def read_imq_properties(folder: str, start: ImqStart, read_file: ReadFile, findings: Findings) -> Checked:
    """The properties of the instance in ``folder``; errors and warnings go to ``findings``."""
    name = posixpath.basename(posixpath.normpath(folder))
    own = {"imq.instancename": name, "imq.instanceshome": posixpath.dirname(folder), "imq.etchome": posixpath.join(folder, "etc")}
    sources = Sources(
        instance=posixpath.join(folder, PROPERTIES_FILE),
        installation=start.installation,
        definitions=start.definitions,
        options={"imq.instancename": name} | dict(start.options),
        variables=dict(start.environment) | own,
    )
    return check_layers(read_layers(sources, read_file, findings), findings)


def make_imq_instance(
    configuration: Configuration,
    folder: str,
    etc: str,
    broker_xml: str,
    start: ImqStart,
    host_names: Sequence[str],
    read_file: ReadFile,
    findings: Findings,
) -> ImqInstance:
    """Read the properties of the instance in ``folder``, and put what they ask for into ``configuration``.

    Raises :class:`~mqbroker.config.problems.ConfigurationError` for all errors in ``findings``.
    """
    checked = read_imq_properties(folder, start, read_file, findings)
    findings.check()
    make_home_broker(configuration, checked, Instance(folder, broker_xml, etc, host_names, read_file, start.environment), findings)
    findings.check()
    return ImqInstance(folder, etc, host_names, start, checked)


def users_with_known_passwords(users_file: bytes) -> list[str]:
    """The users of a new instance who still have the password that everybody knows."""
    try:
        stored = {each.key: each.value for each in parse_properties(users_file)}
    except PropertiesError:
        return []
    return [name for name in USERS if name in stored and _is(stored[name], name)]


def _is(stored: str, password: str) -> bool:
    try:
        return verify_password(password, stored)
    except ValueError:
        return False
