"""The settings of a broker from all files of its instance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from mqbroker.config.instance.jaas import LoginModule
from mqbroker.config.model.configuration import Configuration
from mqbroker.config.problems import Problem

if TYPE_CHECKING:
    from mqbroker.config.imq.instance import ImqInstance


@dataclass(slots=True)
class BrokerSettings:
    """The configuration of a broker, with its logins and folders.

    ``base`` is the folder for relative paths, ``etc`` the folder of users files.  ``login`` are the login modules, ``certificate_login``
    the modules for clients that show a certificate, ``login_domains`` all entries of login.config, which acceptors may name.
    ``basic_security`` holds the properties of Artemis's basic security manager, which keeps users in the broker; None without it.  ``web``
    are the addresses of the instance's web console, where health and metrics are served.
    """

    configuration: Configuration
    base: Path
    login: Sequence[LoginModule] | None = None
    certificate_login: Sequence[LoginModule] | None = None
    etc: Path | None = None
    warnings: Sequence[Problem] = ()
    basic_security: dict[str, str] | None = None
    large_bodies_in_memory: bool = False
    """Without persistence: large bodies stay in memory and the broker writes no files at all, for tests."""
    login_domains: Mapping[str, Sequence[LoginModule]] = field(default_factory=dict)
    web: Sequence[str] = ()
    imq: ImqInstance | None = None
    """The properties of an instance of Open Message Queue; None for every other broker."""
