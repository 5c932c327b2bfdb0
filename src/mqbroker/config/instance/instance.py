"""An instance folder as ``artemis create`` makes it: where everything is, and how users log in.

``etc/bootstrap.xml`` names the broker's configuration and the kind of login, ``etc/login.config`` the login modules,
``etc/artemis.profile`` the variables.  A folder that was moved after it was made is understood, too.
"""

from __future__ import annotations

import posixpath
import re
from collections import ChainMap
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from urllib.parse import unquote

from mqbroker.config.broker_xml.tree import Node, ReadFile, TreeReader
from mqbroker.config.instance.jaas import JaasError, LoginModule, parse_login_config
from mqbroker.config.instance.profile import read_profile, system_properties
from mqbroker.config.model.configuration import Configuration
from mqbroker.config.parse import Loaded, load_configuration
from mqbroker.config.problems import Findings, Problem, did_you_mean
from mqbroker.config.properties.substitution import SubstitutionError, substitute
from mqclient.urls import TransportUri

BASIC_SECURITY_MANAGER = "ActiveMQBasicSecurityManager"
BOOTSTRAP_ELEMENTS = ("jaas-security", "basic-security", "security-manager", "server", "web", "app")


@dataclass(frozen=True, slots=True)
class JaasSecurity:
    """Users log in through entries of login.config.  ``certificate_domain`` is for clients that show a certificate."""

    domain: str
    certificate_domain: str | None = None


@dataclass(frozen=True, slots=True)
class BasicSecurity:
    """Users are kept by the broker itself; ``properties`` may name a first one (bootstrapUser, bootstrapPassword, bootstrapRole)."""

    properties: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class Instance:
    """The contents of an instance folder.  Every path is absolute if ``folder`` is."""

    folder: str
    etc: str
    data: str
    broker_xml: str
    security: JaasSecurity | BasicSecurity
    login_config: dict[str, tuple[LoginModule, ...]]
    """Login modules by domain; file names in their options are relative to ``etc``."""
    login_config_file: str = ""
    property_files: tuple[str, ...] = ()
    system_properties: dict[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    web_bindings: tuple[str, ...] = ()
    """URLs of the web console in the files; health and metrics are served there."""
    warnings: list[Problem] = field(default_factory=list)

    def substitutions(self) -> Mapping[str, str]:
        """The values of ``${name}``: system properties, then environment variables."""
        return ChainMap(self.system_properties, dict(self.environment))

    def load(self, read_file: ReadFile) -> Loaded:
        """The broker's configuration, its paths made absolute.  Raises :class:`.problems.ConfigurationError`."""
        loaded = load_configuration(self.broker_xml, read_file, self.substitutions(), self.property_files)
        resolve_paths(loaded.configuration, self.folder, self.etc, read_file)
        return replace(loaded, warnings=[*self.warnings, *loaded.warnings])


def read_instance(
    folder: str,
    read_file: ReadFile,
    environment: Mapping[str, str],
    properties: Mapping[str, str] | None = None,
    etc: str | None = None,
) -> Instance:
    """Read the instance in ``folder``.

    ``environment`` are the environment variables, ``properties`` system properties from the command line, ``etc`` the configuration
    folder where it is not ``folder/etc``.  Raises :class:`.problems.ConfigurationError`.
    """
    return _InstanceReader(folder, etc or _etc_folder(folder, read_file), read_file, environment, properties or {}).read()


def _etc_folder(folder: str, read_file: ReadFile) -> str:
    """The configuration folder: another than ``etc`` stands only in the start script."""
    usual = posixpath.join(folder, "etc")
    if _is_there(posixpath.join(usual, "bootstrap.xml"), read_file):
        return usual
    try:
        script = read_file(posixpath.join(folder, "bin", "artemis")).decode(errors="replace")
    except OSError:
        return usual
    written = re.search(r"^ARTEMIS_INSTANCE_ETC='([^'\n]+)'", script, re.MULTILINE)
    return posixpath.join(folder, written[1]) if written else usual


def resolve_paths(configuration: Configuration, base: str, etc: str, read_file: ReadFile) -> None:
    """Make every relative path in ``configuration`` start at the folder ``base``.

    A key store or trust store that is not there may also lie in the folder ``etc``, as in Artemis, which has it on its class path.
    """
    for name in ("bindings_directory", "journal_directory", "paging_directory", "large_messages_directory"):
        setattr(configuration, name, posixpath.normpath(posixpath.join(base, getattr(configuration, name))))
    if configuration.node_manager_lock_directory is not None:
        configuration.node_manager_lock_directory = posixpath.normpath(posixpath.join(base, configuration.node_manager_lock_directory))

    def resolved(uri: TransportUri) -> TransportUri:
        paths = {name: uri.parameters[name] for name in ("keyStorePath", "trustStorePath") if uri.parameters.get(name)}
        if not paths:
            return uri
        paths = {name: _store_path(path, base, etc, read_file) for name, path in paths.items()}
        return replace(uri, parameters={**uri.parameters, **paths})

    configuration.acceptors = [resolved(uri) for uri in configuration.acceptors]
    configuration.connectors = {name: resolved(uri) for name, uri in configuration.connectors.items()}


def _store_path(path: str, base: str, etc: str, read_file: ReadFile) -> str:
    usual, other = (posixpath.normpath(posixpath.join(folder, path)) for folder in (base, etc))
    return other if not _is_there(usual, read_file) and _is_there(other, read_file) else usual


def _is_there(path: str, read_file: ReadFile) -> bool:
    """A file that is there and cannot be read counts, so that whoever needs it says so, and does not go on without it."""
    try:
        read_file(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    return True


class _InstanceReader:
    def __init__(self, folder: str, etc: str, read_file: ReadFile, environment: Mapping[str, str], properties: Mapping[str, str]) -> None:
        self._folder = posixpath.normpath(folder)
        self._etc = posixpath.normpath(etc)
        self._read_file = read_file
        self._environment = environment
        self._findings = Findings()
        self._former = ""  # the path of the folder when the profile was written; empty if it is the same
        self._data = ""
        self._properties = {**self._profile(), **properties}

    def read(self) -> Instance:
        root = self._bootstrap()
        login_config = self._login_config()
        security = self._security(root, login_config)
        broker_xml = self._broker_xml(root)
        self._findings.check()
        assert security is not None
        overrides = posixpath.join(self._etc, "broker.properties")
        return Instance(
            folder=self._folder,
            etc=self._etc,
            data=self._data,
            broker_xml=broker_xml,
            security=security,
            login_config=login_config,
            login_config_file=self._login_config_path(),
            property_files=(overrides,) if self._exists(overrides) else (),
            system_properties=self._properties,
            environment=self._environment,
            web_bindings=self._web(root),
            warnings=self._findings.warnings,
        )

    def _exists(self, path: str) -> bool:
        return _is_there(path, self._read_file)

    def _text(self, path: str) -> str | None:
        try:
            return self._read_file(path).decode(errors="replace")
        except OSError:
            return None

    def _profile(self) -> dict[str, str]:
        """The system properties with which ``bin/artemis`` would start Java."""
        path = posixpath.join(self._etc, "artemis.profile")
        start = {**self._environment, "ARTEMIS_INSTANCE": self._folder, "ARTEMIS_INSTANCE_ETC": self._etc}
        text = self._text(path)
        if text is None and self._exists(path):
            self._findings.error(path, 0, "cannot be read")
        variables = start if text is None else read_profile(text, start, lambda line, told: self._findings.warn(path, line, told))
        former = posixpath.normpath(variables.get("ARTEMIS_INSTANCE") or self._folder)
        if former != self._folder:
            self._former = former
            self._findings.warn(path, 0, f"the folder was moved from {former}: paths below it are taken to be below {self._folder}")
        self._data = self._moved(variables.get("ARTEMIS_DATA_DIR") or posixpath.join(self._folder, "data"))
        found: dict[str, str] = {}
        for name in ("JAVA_ARGS", "ARTEMIS_CLUSTER_PROPS"):
            found.update(system_properties(variables.get(name, "")))
        home = variables.get("ARTEMIS_HOME", self._folder)
        found |= {
            "java.security.auth.login.config": posixpath.join(self._etc, "login.config"),
            "artemis.home": home,
            "artemis.URI.home": f"file:{home}",
            "artemis.instance": self._folder,
            "artemis.URI.instance": f"file:{self._folder}",
            "artemis.instance.etc": self._etc,
            "data.dir": self._data,
            "java.io.tmpdir": posixpath.join(self._folder, "tmp"),
        }
        found.update(system_properties(variables.get("JAVA_ARGS_APPEND", "")))
        return found

    def _moved(self, path: str) -> str:
        """``path`` in the folder where it is now."""
        plain = posixpath.normpath(posixpath.join(self._folder, path))
        if self._former and (plain == self._former or plain.startswith(self._former + "/")):
            return self._folder + plain[len(self._former) :]
        return plain

    def _bootstrap(self) -> Node:
        path = posixpath.join(self._etc, "bootstrap.xml")
        if not self._exists(path):
            self._findings.error(self._folder, 0, f"this is not an instance folder, {path} is missing: 'mqbroker create' makes one")
            self._findings.check()
        root = TreeReader(self._read_file, ChainMap(self._properties, dict(self._environment)), self._findings).load(path)
        if root is not None and root.name != "broker":
            self._findings.error(path, root.line, f"the root element is <{root.name}>: expected <broker>")
        self._findings.check()
        assert root is not None
        for child in root.children:
            if child.name not in BOOTSTRAP_ELEMENTS:
                hint = did_you_mean(child.name, BOOTSTRAP_ELEMENTS)
                self._findings.warn(child.file, child.line, f"<{child.name}> is not known here and has no effect{hint}")
        return root

    def _login_config_path(self) -> str:
        return self._moved(self._properties["java.security.auth.login.config"])

    def _login_config(self) -> dict[str, tuple[LoginModule, ...]]:
        path = self._login_config_path()
        text = self._text(path)
        if text is None:
            return {}
        try:
            return {name: tuple(self._module(module, path) for module in modules) for name, modules in parse_login_config(text).items()}
        except JaasError as error:
            self._findings.error(path, error.line, error.text)
            return {}

    def _module(self, module: LoginModule, path: str) -> LoginModule:
        options: dict[str, str] = {}
        for key, value in module.options.items():
            try:
                options[key] = substitute(value, self._properties, lambda name: None)
            except SubstitutionError as error:
                self._findings.error(path, module.line, f"{key}: {error}")
        return replace(module, options=options)

    def _security(self, root: Node, entries: Mapping[str, object]) -> JaasSecurity | BasicSecurity | None:
        for child in root.children:
            if child.name == "jaas-security":
                domain = child.attributes.get("domain", "activemq")
                certificate_domain = child.attributes.get("certificate-domain")
                for name in (domain, certificate_domain):
                    if name is not None:
                        self._check_domain(child, name, entries)
                return JaasSecurity(domain, certificate_domain)
            if child.name == "basic-security":
                return BasicSecurity(dict(child.attributes))
            if child.name == "security-manager":
                class_name = child.attributes.get("class-name", "")
                if class_name.rpartition(".")[2] != BASIC_SECURITY_MANAGER:
                    text = f"the security manager {class_name or '(none)'} is a Java class and cannot be loaded: expected jaas-security"
                    self._findings.error(child.file, child.line, text)
                    return None
                return BasicSecurity({each.attributes.get("key", ""): each.attributes.get("value", "") for each in child.children})
        self._findings.error(root.file, root.line, 'nothing says how users log in: expected <jaas-security domain="activemq"/>')
        return None

    def _check_domain(self, node: Node, name: str, entries: Mapping[str, object]) -> None:
        if name in entries:
            return
        path = self._login_config_path()
        if self._text(path) is None:
            self._findings.error(path, 0, f"cannot be read, and users log in by its entry {name}: {node.file} says so")
            return
        hint = did_you_mean(name, entries, f": it has {', '.join(entries) or 'none'}")
        self._findings.error(node.file, node.line, f"login.config has no entry {name}{hint}")

    def _broker_xml(self, root: Node) -> str:
        own = posixpath.join(self._etc, "broker.xml")
        server = next((child for child in root.children if child.name == "server"), None)
        written = server.attributes.get("configuration", "") if server is not None else ""
        if server is None or not written:
            return own
        if "://" in written and not written.startswith("file:///"):
            self._findings.error(server.file, server.line, f"{written} cannot be read: expected file:/path/to/broker.xml")
            return own
        path = unquote("/" + written.removeprefix("file:").lstrip("/")) if written.startswith("file:/") else written.removeprefix("file:")
        path = self._moved(path)
        if path != own and not self._exists(path):
            self._findings.warn(server.file, server.line, f"there is no {path}: {own} is used")
            return own
        return path

    def _web(self, root: Node) -> tuple[str, ...]:
        web = next((child for child in root.children if child.name == "web"), None)
        if web is None:
            return ()
        self._findings.warn(web.file, web.line, "<web>: there is no web console; its address serves /health, and /metrics if configured")
        bindings = [web.attributes["bind"]] if "bind" in web.attributes else []
        bindings += [child.attributes["uri"] for child in web.children if child.name == "binding" and "uri" in child.attributes]
        return tuple(bindings)
