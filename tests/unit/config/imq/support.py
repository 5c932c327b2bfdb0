"""Instances of Open Message Queue in memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mqbroker.config.imq.instance import ImqInstance, ImqStart, make_imq_instance
from mqbroker.config.model.configuration import Configuration
from mqbroker.config.problems import ConfigurationError, Findings
from mqbroker.config.properties.properties import parse_properties

FOLDER = "/var/imq/instances/b1"
PROPERTIES = f"{FOLDER}/props/config.properties"
CENTRAL = "/etc/imq/cluster.properties"
INSTALLATION = "/usr/imq/install.properties"


class Files:
    """Files by path; anything else does not exist."""

    def __init__(self, files: Mapping[str, str]) -> None:
        self.files: dict[str, str | bytes] = dict(files)

    def read(self, path: str) -> bytes:
        try:
            found = self.files[path]
            return found.encode() if isinstance(found, str) else found
        except KeyError:
            raise FileNotFoundError(2, "No such file or directory", path) from None


class Made:
    """The instance ``b1`` on the machine ``here`` (10.0.0.1): what its files make of ``configuration``."""

    def __init__(
        self,
        properties: str = "",
        *,
        files: Mapping[str, str] | None = None,
        definitions: Mapping[str, str] | None = None,
        options: Mapping[str, str] | None = None,
        configuration: Configuration | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.configuration = configuration or Configuration(cluster_user="links", cluster_password="links")
        self.findings = Findings()
        start = ImqStart(definitions or {}, options or {}, INSTALLATION, environment=environment or {})
        self.instance: ImqInstance | None = None
        self.errors: list[str] = []
        read = Files({PROPERTIES: properties, **(files or {})}).read
        try:
            self.instance = make_imq_instance(
                self.configuration,
                FOLDER,
                f"{FOLDER}/etc",
                f"{FOLDER}/etc/broker.xml",
                start,
                ["here", "10.0.0.1"],
                read,
                self.findings,
            )
        except ConfigurationError as error:
            self.errors = [str(problem) for problem in error.problems]

    @property
    def warnings(self) -> list[str]:
        return [str(problem) for problem in self.findings.warnings]

    @property
    def home(self) -> Any:
        return self.configuration.home_cluster

    def origin(self, name: str) -> str:
        assert self.instance is not None, self.errors
        return str(self.instance.layers.settings[name].origin)

    def text(self, name: str) -> str:
        assert self.instance is not None, self.errors
        return self.instance.layers.text(name)


def listed(text: str) -> dict[str, str]:
    """The entries of a properties file."""
    return {each.key: each.value for each in parse_properties(text)}
