"""From the text of broker.xml to a :class:`Configuration`.

All errors are reported at once, each with file and line.  A setting without effect is never passed over in silence: it is a warning when no
message can be lost by it, and otherwise an error.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mqbroker.config.broker_xml.reader import Content, Reader
from mqbroker.config.broker_xml.sections import finish_sections
from mqbroker.config.broker_xml.tree import Node, ReadFile, TreeReader
from mqbroker.config.masking import MaskingError, codec_key, decode_masked, unwrap
from mqbroker.config.model.address_settings import PartialSettings
from mqbroker.config.model.blocks import CORE, HINTS, JMS
from mqbroker.config.model.cluster_elements import CLUSTER_BLOCKS
from mqbroker.config.model.configuration import Configuration
from mqbroker.config.problems import ConfigurationError, Findings, Problem, WrittenFilter, sorted_by_place
from mqbroker.config.properties.entries import Entry, prefixed_entries, read_entries
from mqclient.text import nearest_name

__all__ = ["ConfigurationError", "Loaded", "Problem", "load_configuration", "parse_configuration"]

ROOT = "urn:activemq"
OLDER_FORMS = (("queues",), ("cluster-connections", "cluster-connection-uri"))


@dataclass(frozen=True, slots=True)
class Loaded:
    """A configuration that can be used, with the warnings about it."""

    configuration: Configuration
    warnings: list[Problem]
    filters: Sequence[WrittenFilter] = ()
    """Filters of queues, not yet checked."""


def load_configuration(path: str, read_file: ReadFile, substitutions: Mapping[str, str], property_files: Sequence[str] = ()) -> Loaded:
    """Read the broker.xml at ``path``.

    ``read_file`` reads any file by path.  ``substitutions`` are the values for ``${name}``: system properties, then environment variables;
    names that begin with ``system-property-prefix`` override elements.  ``property_files`` (``.properties`` or ``.json``) override elements
    before that.  Raises :class:`ConfigurationError`.
    """
    findings = Findings()
    tree = TreeReader(read_file, substitutions, findings)
    root = tree.load(path)
    findings.check()
    entries: list[Entry] = []
    for file in property_files:
        try:
            data = read_file(file)
        except OSError as error:
            findings.error(file, 0, f"cannot read {file}: {error.strerror or error}")
        else:
            entries += read_entries(data, file, substitutions, findings)
    return _assemble(root, path, substitutions, entries, findings)


def parse_configuration(
    text: str | bytes, name: str = "broker.xml", substitutions: Mapping[str, str] | None = None, read_file: ReadFile | None = None
) -> Loaded:
    """Read a configuration from a text, which messages call ``name``.  Raises :class:`ConfigurationError`."""
    findings = Findings()
    root = TreeReader(read_file or _no_files, substitutions or {}, findings).parse(text, name)
    findings.check()
    return _assemble(root, name, substitutions or {}, [], findings)


def _no_files(path: str) -> bytes:
    raise FileNotFoundError(2, "no other files can be read here", path)


def _assemble(root: Node | None, name: str, substitutions: Mapping[str, str], entries: Sequence[Entry], findings: Findings) -> Loaded:
    reader = Reader(findings, HINTS)
    core_node, jms_node = _roots(root, name, reader)
    core = reader.read(core_node, CORE) if core_node is not None else Content((name, 0))
    _read_older_forms(core, jms_node, reader)
    prefix = core.values.get("system_property_prefix", Configuration().system_property_prefix)
    every = [*entries, *prefixed_entries(substitutions, prefix, findings)]
    if every:
        # Imported here: few brokers have properties that override their broker.xml.
        from mqbroker.config.overrides.overrides import apply_entries

        apply_entries(core, every, findings)
    secrets = _Secrets(core, substitutions, findings)
    configuration = Configuration(**core.values)
    configuration.cluster_password = secrets.plain(configuration.cluster_password, *core.places.get("cluster_password", (name, 0)))
    finish_sections(configuration, core, findings, secrets.plain)
    joins = any(block.name == inner for block in CLUSTER_BLOCKS for inner, _ in core.inside)
    if joins or any("clusterConnection" in acceptor.parameters for acceptor in configuration.acceptors):
        from mqbroker.config.broker_xml.cluster_assembly import finish_cluster  # many brokers are alone

        finish_cluster(configuration, core, findings, secrets.plain)
    findings.check()
    _warn_about_paging(configuration, core, name, findings)
    return Loaded(configuration, sorted_by_place(findings.warnings), findings.filters)


def _roots(root: Node | None, name: str, reader: Reader) -> tuple[Node | None, Node | None]:
    """The ``core`` and ``jms`` elements."""
    if root is None:
        return None, None
    if root.name != "configuration":
        reader.error(root, f'the root element is <{root.name}>: expected <configuration xmlns="{ROOT}">')
        return None, None
    if root.namespace != ROOT:
        reader.error(root, f'<configuration> is in the namespace {root.namespace or "(none)"}: expected xmlns="{ROOT}"')
        return None, None
    found: dict[str, Node] = {}
    for child in root.children:
        namespace = f"{ROOT}:{child.name}"
        if child.name not in ("core", "jms"):
            near = nearest_name(child.name, ("core", "jms"))
            reader.error(child, f"<{child.name}> is not an element of <configuration>: expected {near or 'core'}")
        elif child.namespace != namespace:
            reader.error(child, f'<{child.name}> is in the namespace {child.namespace or "(none)"}: expected xmlns="{namespace}"')
        elif child.name in found:
            reader.error(child, f"<{child.name}> is here a second time (first on line {found[child.name].line}): expected it once")
        else:
            found[child.name] = child
    if not found and not reader.findings.errors:
        reader.error(root, f'{name} has no <core xmlns="{ROOT}:core">')
    return found.get("core"), found.get("jms")


def _read_older_forms(core: Content, jms: Node | None, reader: Reader) -> None:
    if jms is not None:
        reader.warn(jms, "AMQ221038: <jms> is an old section: write <addresses> in <core>")
    if jms is None and not any(True for path in OLDER_FORMS for _ in core.all(*path)):
        return
    from mqbroker.config.broker_xml.older_forms import put_into_addresses, read_cluster_uris  # few files have them

    put_into_addresses(core, reader.read(jms, JMS) if jms is not None else None, reader.findings)
    read_cluster_uris(core, reader.findings)


class _Secrets:
    """Masked passwords of one configuration, made plain."""

    def __init__(self, core: Content, substitutions: Mapping[str, str], findings: Findings) -> None:
        self._findings = findings
        self._all_masked = bool(core.values.get("mask_password"))
        self._codec = core.values.get("password_codec")
        self._substitutions = substitutions
        if self._codec is not None:
            try:
                codec_key(self._codec, substitutions.get)
            except MaskingError as error:
                findings.error(*core.places["password_codec"], f"<password-codec>: {error}")
                self._codec = None

    def plain(self, text: str, file: str, line: int) -> str:
        """``text``, unmasked when it is ``ENC(…)``, or when ``mask-password`` says that every password of the file is masked."""
        masked = unwrap(text)
        if masked is None and self._all_masked and line:
            masked = text
        if masked is None:
            return text
        try:
            return decode_masked(masked, codec_key(self._codec, self._substitutions.get))
        except MaskingError as error:
            self._findings.error(file, line, f"a masked password cannot be read: {error}")
            return ""


def _warn_about_paging(configuration: Configuration, core: Content, name: str, findings: Findings) -> None:
    """Warn about settings of paging that have no effect as they stand in the file."""
    repository = configuration.address_settings_repository()
    line = next((content.place[1] for content in core.all("address-settings")), 0)
    for match, partial in configuration.address_settings.items():
        limited = any(partial.get(field_name) not in (None, -1) for field_name in ("page_limit_bytes", "page_limit_messages"))
        settings = repository.lookup(match)
        if limited and settings.page_full_policy is None:
            findings.warn(name, line, f"AMQ224124: address-setting {match}: a page limit holds only together with page-full-policy")
        elif partial.get("page_full_policy") and settings.page_limit_bytes is None and settings.page_limit_messages is None:
            findings.warn(name, line, f"AMQ224125: address-setting {match}: page-full-policy holds only together with a page limit")
    if configuration.persistence_enabled:
        return
    text = "without persistence nothing is paged: when the limit is reached, producers are blocked until there is room"
    paged = [match for match, partial in configuration.address_settings.items() if _has_limit(partial)]
    paged = [match for match in paged if repository.lookup(match).address_full_policy == "PAGE"]
    if paged:
        findings.warn(name, line, f"address-full-policy PAGE with a limit ({', '.join(paged)}): {text}")
    for field_name, element in (("global_max_size", "global-max-size"), ("global_max_messages", "global-max-messages")):
        if getattr(configuration, field_name) > 0 and repository.lookup("").address_full_policy == "PAGE":
            findings.warn(*core.places.get(field_name, (name, 0)), f"<{element}> with address-full-policy PAGE: {text}")


def _has_limit(partial: PartialSettings) -> bool:
    return (partial.get("max_size_bytes") or -1) > 0 or (partial.get("max_size_messages") or -1) > 0
