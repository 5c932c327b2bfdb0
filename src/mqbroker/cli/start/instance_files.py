"""The texts of a new instance folder: configuration, users, start scripts.

The layout is that of ``artemis create`` (Artemis manual, "Using the Server"); files that only a Java process reads (logging, the web
console) are left out.  ``tests/unit/cli/start/test_instance_files.py`` checks that the configuration reader accepts these texts.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from xml.sax.saxutils import escape, quoteattr

from mqbroker.cli.status import BadUsage
from mqbroker.config.masking import hash_password
from mqbroker.config.model.configuration import Configuration
from mqbroker.config.model.database import DatabaseStoreConfiguration

_LOGIN_MODULE: Final = "org.apache.activemq.artemis.spi.core.security.jaas"
_BASIC_MANAGER: Final = "org.apache.activemq.artemis.spi.core.security.ActiveMQBasicSecurityManager"
PERMISSIONS: Final = (
    "createNonDurableQueue",
    "deleteNonDurableQueue",
    "createDurableQueue",
    "deleteDurableQueue",
    "createAddress",
    "deleteAddress",
    "consume",
    "browse",
    "send",
    "manage",
)
READABLE: Final = 0o644
SECRET: Final = 0o600
PROGRAM: Final = 0o755


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameSettings:
    """The settings of every instance folder, whatever its broker.xml says."""

    folder: Path
    data: str
    user: str
    role: str
    anonymous: bool
    security_manager: str
    python: str
    java_properties: Sequence[str] = ()
    """Words such as ``-Dname=value``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceSettings(FrameSettings):
    """The options of ``mqbroker create``.  ``queues`` and ``addresses`` are pairs of name and routing type (``anycast``, ``multicast``)."""

    name: str
    host: str
    port: int
    password: str
    queues: Sequence[tuple[str, str]]
    addresses: Sequence[tuple[str, str]]
    persistence: bool
    datasync: bool
    journal_type: str
    full_policy: str
    purge_page_folders: bool
    auto_create: bool
    auto_delete: bool
    global_max_size: str | None
    global_max_messages: int
    cluster_user: str | None
    cluster_password: str | None
    clustered: bool
    static_cluster: Sequence[str]
    max_hops: int
    message_load_balancing: str
    shared_store: bool
    replicated: bool
    backup: bool
    failover_on_shutdown: bool
    ping: str
    """Hosts with commas between; empty = the network is not checked."""
    database: DatabaseStoreConfiguration | None
    """The database in which messages are kept; None = in files."""
    salt: bytes


def parse_destinations(text: str, option: str, default: str) -> list[tuple[str, str]]:
    """``a,b:multicast`` as pairs.  Raises :class:`BadUsage` for an unknown routing type."""
    found: list[tuple[str, str]] = []
    for part in (part.strip() for part in text.split(",")):
        if not part:
            continue
        name, separator, routing_type = part.rpartition(":")
        if not separator:
            name, routing_type = part, default
        if routing_type.lower() not in ("anycast", "multicast"):
            raise BadUsage(f"{option}: '{routing_type}' in '{part}' is not a routing type, expected anycast or multicast")
        found.append((name, routing_type.lower()))
    return found


def instance_files(settings: InstanceSettings) -> Iterator[tuple[str, str, int]]:
    """Path in the instance, text and permission bits of every file."""
    yield "etc/broker.xml", _broker_xml(settings), SECRET
    yield from frame_files(settings, {settings.user: hash_password(settings.password, settings.salt)}, {settings.role: settings.user})


def frame_files(settings: FrameSettings, users: Mapping[str, str], roles: Mapping[str, str]) -> Iterator[tuple[str, str, int]]:
    """As :func:`instance_files`, but without broker.xml.  ``users`` are hashed passwords by user, ``roles`` users by role."""
    listed = "".join(f"{_key(name)} = {hashed}\n" for name, hashed in users.items())
    yield "etc/artemis-users.properties", f"# name = password, or name = ENC(hash) of `mqbroker mask --hash`\n{listed}", SECRET
    listed = "".join(f"{_key(role)} = {_value(user)}\n" for role, user in roles.items())
    yield "etc/artemis-roles.properties", f"# role = users, separated by commas without blanks\n{listed}", READABLE
    yield "etc/bootstrap.xml", _bootstrap_xml(settings, users[settings.user]), SECRET
    yield "etc/login.config", _login_config(settings), READABLE
    yield "etc/artemis.profile", _profile(settings), READABLE
    yield "bin/mqbroker", _start_script(settings), PROGRAM
    yield "bin/artemis", _start_script(settings), PROGRAM
    service = Path(__file__).with_name("service.sh").read_text(encoding="utf-8")
    yield "bin/mqbroker-service", service, PROGRAM
    yield "bin/artemis-service", service, PROGRAM


def _key(name: str) -> str:
    """A key of a properties file."""
    return "".join("\\" + character if character in "\\ :=#!" else character for character in name)


def _value(text: str) -> str:
    """A value of a properties file."""
    return text.replace("\\", "\\\\")


def _flag(value: bool) -> str:
    return "true" if value else "false"


def _database_store(database: DatabaseStoreConfiguration, shared: bool) -> str:
    lease = ""
    if shared:
        lease = f"""\
            <!-- ms: a backup takes over from a broker that has died without a word after this time, at the latest -->
            <jdbc-lock-expiration>{database.lock_expiration}</jdbc-lock-expiration>
            <jdbc-lock-renew-period>{database.lock_renew_period}</jdbc-lock-renew-period>
"""
    return f"""      <store>
         <database-store>
            <jdbc-connection-url>{escape(database.url)}</jdbc-connection-url>
            <jdbc-network-timeout>{database.network_timeout}</jdbc-network-timeout>
{lease}         </database-store>
      </store>
"""


def _broker_xml(settings: InstanceSettings) -> str:
    data = escape(settings.data.rstrip("/"))
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    permissions = "\n".join(f'            <permission type="{name}" roles={quoteattr(settings.role)}/>' for name in PERMISSIONS)
    optional = ""
    if settings.global_max_size:
        optional += f"      <global-max-size>{escape(settings.global_max_size)}</global-max-size>\n"
    if settings.cluster_user:
        optional += f"      <cluster-user>{escape(settings.cluster_user)}</cluster-user>\n"
    if settings.cluster_password:
        optional += f"      <cluster-password>{escape(settings.cluster_password)}</cluster-password>\n"
    if settings.ping:
        optional += _network_check(settings.ping)
    if settings.database is not None:
        optional += _database_store(settings.database, settings.shared_store)
    return f"""<?xml version="1.0" encoding="UTF-8"?>
<configuration xmlns="urn:activemq" xmlns:xi="http://www.w3.org/2001/XInclude">
   <core xmlns="urn:activemq:core">
      <name>{escape(settings.name)}</name>
      <persistence-enabled>{_flag(settings.persistence)}</persistence-enabled>
{optional}
      <!-- Relative folders are in the instance. -->
      <paging-directory>{data}/paging</paging-directory>
      <bindings-directory>{data}/bindings</bindings-directory>
      <journal-directory>{data}/journal</journal-directory>
      <large-messages-directory>{data}/large-messages</large-messages-directory>
      <journal-type>{settings.journal_type}</journal-type>
      <!-- false: faster, and a crash of the machine loses messages that were acknowledged to their senders -->
      <journal-datasync>{_flag(settings.datasync)}</journal-datasync>
      <journal-min-files>2</journal-min-files>
      <journal-pool-files>10</journal-pool-files>
      <journal-file-size>10M</journal-file-size>
      <purge-page-folders>{_flag(settings.purge_page_folders)}</purge-page-folders>
      <!-- per cent: producers are held back while the disk is fuller than this -->
      <max-disk-usage>90</max-disk-usage>
      <disk-scan-period>5000</disk-scan-period>
      <max-redelivery-records>1</max-redelivery-records>
      <global-max-messages>{settings.global_max_messages}</global-max-messages>

      <acceptors>
         <acceptor name="artemis">tcp://{escape(host)}:{settings.port}?tcpSendBufferSize=1048576;tcpReceiveBufferSize=1048576;protocols=CORE</acceptor>
      </acceptors>
{_cluster(settings, host)}{_ha_policy(settings)}
      <security-settings>
         <security-setting match="#">
{permissions}
         </security-setting>
      </security-settings>

{_address_settings(settings)}

      <addresses>
{_addresses(settings)}
      </addresses>
   </core>
</configuration>
"""


def _network_check(hosts: str) -> str:
    commands = Configuration()
    return f"""
      <!-- The broker is stopped while none of these hosts answers.  Any that always answers will do, such as the router. -->
      <network-check-list>{escape(hosts)}</network-check-list>
      <network-check-period>10000</network-check-period>
      <network-check-timeout>1000</network-check-timeout>
      <!-- -w, and not -t, which is the number of hops on Linux -->
      <network-check-ping-command>{commands.network_check_ping_command}</network-check-ping-command>
      <network-check-ping6-command>{commands.network_check_ping6_command}</network-check-ping6-command>
"""


def _address_settings(settings: InstanceSettings) -> str:
    return f"""      <address-settings>
         <address-setting match="activemq.management.#">
            <dead-letter-address>DLQ</dead-letter-address>
            <expiry-address>ExpiryQueue</expiry-address>
            <redelivery-delay>0</redelivery-delay>
            <max-size-bytes>-1</max-size-bytes>
            <message-counter-history-day-limit>10</message-counter-history-day-limit>
            <address-full-policy>{settings.full_policy}</address-full-policy>
            <auto-create-queues>true</auto-create-queues>
            <auto-create-addresses>true</auto-create-addresses>
         </address-setting>
         <address-setting match="#">
            <dead-letter-address>DLQ</dead-letter-address>
            <expiry-address>ExpiryQueue</expiry-address>
            <redelivery-delay>0</redelivery-delay>
            <message-counter-history-day-limit>10</message-counter-history-day-limit>
            <address-full-policy>{settings.full_policy}</address-full-policy>
            <auto-create-queues>{_flag(settings.auto_create)}</auto-create-queues>
            <auto-create-addresses>{_flag(settings.auto_create)}</auto-create-addresses>
            <auto-delete-queues>{_flag(settings.auto_delete)}</auto-delete-queues>
            <auto-delete-addresses>{_flag(settings.auto_delete)}</auto-delete-addresses>
            <page-size-bytes>10M</page-size-bytes>
            <!-- -1: only global-max-size and global-max-messages limit an address -->
            <max-size-bytes>-1</max-size-bytes>
            <max-size-messages>-1</max-size-messages>
            <max-read-page-messages>-1</max-read-page-messages>
            <max-read-page-bytes>20M</max-read-page-bytes>
            <page-limit-bytes>-1</page-limit-bytes>
            <page-limit-messages>-1</page-limit-messages>
         </address-setting>
      </address-settings>"""


def _cluster(settings: InstanceSettings, host: str) -> str:
    """The connectors and the cluster connection, with the names that ``artemis create`` gives them."""
    if not settings.clustered:
        return ""
    connectors = [("artemis", f"tcp://{host}:{settings.port}")]
    connectors += [(f"node{number}", url) for number, url in enumerate(settings.static_cluster)]
    listed = "\n".join(f'         <connector name="{name}">{escape(url)}</connector>' for name, url in connectors)
    text = f"""
      <connectors>
         <!-- artemis: what other brokers are told of this one -->
{listed}
      </connectors>
"""
    members = '            <discovery-group-ref discovery-group-name="dg-group1"/>'
    if settings.static_cluster:
        refs = "\n".join(f"               <connector-ref>{name}</connector-ref>" for name, _ in connectors[1:])
        members = f"            <static-connectors>\n{refs}\n            </static-connectors>"
    else:
        text += _GROUPS
    return (
        text
        + f"""
      <cluster-connections>
         <cluster-connection name="my-cluster">
            <connector-ref>artemis</connector-ref>
            <message-load-balancing>{settings.message_load_balancing}</message-load-balancing>
            <max-hops>{settings.max_hops}</max-hops>
{members}
         </cluster-connection>
      </cluster-connections>
"""
    )


def _ha_policy(settings: InstanceSettings) -> str:
    """The policy that ``artemis create`` writes."""
    role = "backup" if settings.backup else "primary"
    if settings.shared_store:
        return f"""
      <ha-policy>
         <shared-store>
            <{role}>
               <failover-on-shutdown>{_flag(settings.failover_on_shutdown)}</failover-on-shutdown>
            </{role}>
         </shared-store>
      </ha-policy>
"""
    if settings.replicated:
        inside = "<backup/>"
        if not settings.backup:
            inside = """<primary>
               <vote-on-replication-failure>true</vote-on-replication-failure>
            </primary>"""
        return f"""
      <ha-policy>
         <replication>
            {inside}
         </replication>
      </ha-policy>
"""
    return ""


_GROUPS: Final = """
      <broadcast-groups>
         <broadcast-group name="bg-group1">
            <group-address>231.7.7.7</group-address>
            <group-port>9876</group-port>
            <broadcast-period>5000</broadcast-period>
            <connector-ref>artemis</connector-ref>
         </broadcast-group>
      </broadcast-groups>

      <discovery-groups>
         <discovery-group name="dg-group1">
            <group-address>231.7.7.7</group-address>
            <group-port>9876</group-port>
            <refresh-timeout>10000</refresh-timeout>
         </discovery-group>
      </discovery-groups>
"""


def _addresses(settings: InstanceSettings) -> str:
    parts: list[str] = []
    for name, routing_type in (("DLQ", "anycast"), ("ExpiryQueue", "anycast"), *settings.queues):
        parts.append(
            f"         <address name={quoteattr(name)}>\n            <{routing_type}>\n               <queue name={quoteattr(name)}/>\n"
            f"            </{routing_type}>\n         </address>"
        )
    for name, routing_type in settings.addresses:
        parts.append(f"         <address name={quoteattr(name)}>\n            <{routing_type}/>\n         </address>")
    return "\n".join(parts)


def _bootstrap_xml(settings: FrameSettings, hashed: str) -> str:
    security = '   <jaas-security domain="activemq"/>'
    if settings.security_manager == "basic":
        security = (
            f'   <security-manager class-name="{_BASIC_MANAGER}">\n'
            f'      <property key="bootstrapUser" value={quoteattr(settings.user)}/>\n'
            f'      <property key="bootstrapPassword" value="{hashed}"/>\n'
            f'      <property key="bootstrapRole" value={quoteattr(settings.role)}/>\n'
            "   </security-manager>"
        )
    return f"""<?xml version="1.0" encoding="UTF-8" standalone="yes"?>
<broker xmlns="http://activemq.apache.org/schema">
{security}
   <server configuration={quoteattr(f"file:{settings.folder}/etc/broker.xml")}/>
</broker>
"""


def _login_config(settings: FrameSettings) -> str:
    flag = "sufficient" if settings.anonymous else "required"
    text = f"""activemq {{
   {_LOGIN_MODULE}.PropertiesLoginModule {flag}
       debug=false
       reload=true
       org.apache.activemq.jaas.properties.user="artemis-users.properties"
       org.apache.activemq.jaas.properties.role="artemis-roles.properties";
"""
    if settings.anonymous:
        text += f"""
   {_LOGIN_MODULE}.GuestLoginModule sufficient
       debug=false
       org.apache.activemq.jaas.guest.user="{_jaas(settings.user)}"
       org.apache.activemq.jaas.guest.role="{_jaas(settings.role)}";
"""
    return text + "};\n"


def _jaas(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def _profile(settings: FrameSettings) -> str:
    data = settings.folder / settings.data
    return f"""# Read when the broker starts.
ARTEMIS_INSTANCE={shlex.quote(str(settings.folder))}
ARTEMIS_DATA_DIR={shlex.quote(str(data))}

# -Dname=value sets what ${{name}} stands for in broker.xml; there is no Java, so everything else in here has no effect.
JAVA_ARGS={shlex.quote(" ".join(settings.java_properties))}
"""


def _start_script(settings: FrameSettings) -> str:
    return f"""#!/bin/sh
# The mqbroker command for this instance.

program="$0"
while [ -h "$program" ]; do
  target=$(readlink "$program")
  case "$target" in
    /*) program="$target" ;;
    *) program="$(dirname "$program")/$target" ;;
  esac
done
MQBROKER_INSTANCE=$(cd "$(dirname "$program")/.." && pwd) || exit 1
export MQBROKER_INSTANCE

exec "${{MQBROKER_PYTHON:-{settings.python}}}" -m mqbroker.cli "$@"
"""
