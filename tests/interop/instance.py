"""The broker configuration of the interop suite: one broker.xml and one set of users that both brokers read."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import trustme
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, load_pem_private_key
from cryptography.hazmat.primitives.serialization.pkcs12 import serialize_key_and_certificates
from cryptography.x509 import load_pem_x509_certificate

USER, PASSWORD = "admin", "secret"
POWERLESS_USER, POWERLESS_PASSWORD = "nobody", "nothing"
PERMISSIONS = (
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
EXPIRY_SCAN_MS = 200  # short, so that the scenarios see an expired message in the expiry queue soon

BROKER_XML = """<?xml version="1.0"?>
<configuration xmlns="urn:activemq">
   <core xmlns="urn:activemq:core">
      <name>{name}</name>
      <persistence-enabled>true</persistence-enabled>
      <max-redelivery-records>1</max-redelivery-records>
      <journal-type>NIO</journal-type>
      <paging-directory>data/paging</paging-directory>
      <bindings-directory>data/bindings</bindings-directory>
      <journal-directory>data/journal</journal-directory>
      <large-messages-directory>data/large-messages</large-messages-directory>
      <journal-pool-files>10</journal-pool-files>
      <message-expiry-scan-period>{expiry_scan_ms}</message-expiry-scan-period>
      <transaction-timeout-scan-period>{expiry_scan_ms}</transaction-timeout-scan-period>
      <max-disk-usage>100</max-disk-usage>
{core_elements}
      <acceptors>
         <acceptor name="artemis">tcp://127.0.0.1:{port}?protocols=CORE</acceptor>
{tls}{acceptors}      </acceptors>
      <security-settings>
         <security-setting match="#">
{permissions}
         </security-setting>
      </security-settings>
      <address-settings>
         <address-setting match="#">
            <dead-letter-address>DLQ</dead-letter-address>
            <expiry-address>ExpiryQueue</expiry-address>
            <auto-create-queues>true</auto-create-queues>
            <auto-create-addresses>true</auto-create-addresses>
            <auto-delete-queues>false</auto-delete-queues>
            <auto-delete-addresses>false</auto-delete-addresses>
         </address-setting>
         <address-setting match="interop.dead.#">
            <max-delivery-attempts>2</max-delivery-attempts>
         </address-setting>
         <address-setting match="kill.#">
            <max-delivery-attempts>-1</max-delivery-attempts>
            <max-size-messages>100</max-size-messages>
            <address-full-policy>BLOCK</address-full-policy>
         </address-setting>
         <address-setting match="paged.#">
            <max-delivery-attempts>-1</max-delivery-attempts>
            <max-size-bytes>5000</max-size-bytes>
            <page-size-bytes>10000</page-size-bytes>
            <address-full-policy>PAGE</address-full-policy>
            <page-limit-messages>1000</page-limit-messages>
            <page-full-policy>FAIL</page-full-policy>
         </address-setting>
         <address-setting match="interop.delayed.#">
            <redelivery-delay>300</redelivery-delay>
         </address-setting>
         <address-setting match="interop.queue-last-value.#">
            <default-last-value-key>key</default-last-value-key>
         </address-setting>
         <address-setting match="interop.queue-ring.#">
            <default-ring-size>3</default-ring-size>
         </address-setting>
         <address-setting match="interop.queue-non-destructive.#">
            <default-non-destructive>true</default-non-destructive>
            <default-last-value-key>key</default-last-value-key>
         </address-setting>
         <address-setting match="interop.closed.#">
            <auto-create-queues>false</auto-create-queues>
            <auto-create-addresses>false</auto-create-addresses>
         </address-setting>
         <address-setting match="jms.queue.interop.closed.#">
            <auto-create-queues>false</auto-create-queues>
            <auto-create-addresses>false</auto-create-addresses>
         </address-setting>
         <address-setting match="interop.full.fail.#">
            <max-size-bytes>20000</max-size-bytes>
            <address-full-policy>FAIL</address-full-policy>
         </address-setting>
         <address-setting match="interop.full.block.#">
            <max-size-bytes>20000</max-size-bytes>
            <address-full-policy>BLOCK</address-full-policy>
         </address-setting>
{address_settings}
      </address-settings>
      <addresses>
         <address name="DLQ">
            <anycast>
               <queue name="DLQ"/>
            </anycast>
         </address>
         <address name="ExpiryQueue">
            <anycast>
               <queue name="ExpiryQueue"/>
            </anycast>
         </address>
{addresses}
      </addresses>
   </core>
</configuration>
"""

TLS_ACCEPTOR = """\
         <acceptor name="tls">tcp://127.0.0.1:{port}?{parameters}</acceptor>
"""
STORE_PASSWORD = "changeit"

LOGIN_CONFIG = """activemq {
   org.apache.activemq.artemis.spi.core.security.jaas.PropertiesLoginModule required
       reload=true
       org.apache.activemq.jaas.properties.user="artemis-users.properties"
       org.apache.activemq.jaas.properties.role="artemis-roles.properties";
};
"""

BOOTSTRAP_XML = """<?xml version="1.0" encoding="UTF-8" standalone="yes"?>
<broker xmlns="http://activemq.apache.org/schema">
   <jaas-security domain="activemq"/>
   <server configuration="file:{etc}/broker.xml"/>
</broker>
"""


@dataclass(frozen=True)
class Additions:
    """Further elements for broker.xml: below `core`, below `address-settings`, `addresses` and `acceptors`; the port of an acceptor with
    TLS; the broker's name; the scan periods.

    The certificate of that acceptor is vouched for by `etc/authority.pem`.
    """

    core: str = ""
    address_settings: str = ""
    addresses: str = ""
    acceptors: str = ""
    tls_port: int | None = None
    name: str = "interop"
    expiry_scan_ms: int = EXPIRY_SCAN_MS


NOTHING = Additions()


def broker_xml(port: int, additions: Additions = NOTHING, tls: str = "") -> str:
    """Text of broker.xml with one CORE acceptor on 127.0.0.1:port (0: the broker chooses), and `tls`, the element of another."""
    permissions = "\n".join(f'            <permission type="{name}" roles="amq"/>' for name in PERMISSIONS)
    values = {
        "name": additions.name,
        "core_elements": additions.core,
        "address_settings": additions.address_settings,
        "addresses": additions.addresses,
        "acceptors": additions.acceptors,
        "expiry_scan_ms": additions.expiry_scan_ms,
    }
    return BROKER_XML.format(port=port, tls=tls, permissions=permissions, **values)


def write_settings(folder: Path, port: int, additions: Additions = NOTHING) -> Path:
    """Write broker.xml and the users into `folder`/etc (other files there stay); returns the path of broker.xml."""
    etc = folder / "etc"
    etc.mkdir(parents=True, exist_ok=True)
    tls = "" if additions.tls_port is None else _tls_acceptor(etc, additions.tls_port)
    (etc / "broker.xml").write_text(broker_xml(port, additions, tls))
    (etc / "artemis-users.properties").write_text(f"{USER} = {PASSWORD}\n{POWERLESS_USER} = {POWERLESS_PASSWORD}\n")
    (etc / "artemis-roles.properties").write_text(f"amq = {USER}\npowerless = {POWERLESS_USER}\n")
    return etc / "broker.xml"


def _tls_acceptor(etc: Path, port: int) -> str:
    store = etc / "server.p12"
    if not store.exists():
        authority = trustme.CA()
        authority.cert_pem.write_to_path(etc / "authority.pem")
        trustme.CA().cert_pem.write_to_path(etc / "stranger.pem")
        issued = authority.issue_cert("127.0.0.1", "localhost")
        key = load_pem_private_key(issued.private_key_pem.bytes(), None)
        certificate = load_pem_x509_certificate(issued.cert_chain_pems[0].bytes())
        assert isinstance(key, EllipticCurvePrivateKey)
        protection = BestAvailableEncryption(STORE_PASSWORD.encode())
        store.write_bytes(serialize_key_and_certificates(b"server", key, certificate, None, protection))
    parameters = f"protocols=CORE;sslEnabled=true;keyStorePath={store};keyStoreType=PKCS12;keyStorePassword={STORE_PASSWORD}"
    return TLS_ACCEPTOR.format(port=port, parameters=parameters)


def write_instance(folder: Path, port: int, additions: Additions = NOTHING) -> Path:
    """Write a complete instance folder for mqbroker; returns the path of broker.xml."""
    path = write_settings(folder, port, additions)
    (path.parent / "login.config").write_text(LOGIN_CONFIG)
    (path.parent / "bootstrap.xml").write_text(BOOTSTRAP_XML.format(etc=path.parent))
    (folder / "data").mkdir(exist_ok=True)
    return path
