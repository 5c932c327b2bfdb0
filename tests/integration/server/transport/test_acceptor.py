"""Acceptors over real sockets: TLS, limits, several of them, and those that cannot be opened."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import trustme
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, load_pem_private_key, pkcs12
from cryptography.x509 import load_pem_x509_certificate
from OpenSSL import SSL
from twisted.internet.ssl import Certificate, PrivateCertificate, TLSVersion, optionsForClientTLS
from twisted.internet.task import deferLater

from mqbroker.app import Broker, StartError
from mqbroker.config.instance.jaas import LoginModule
from mqbroker.server.security.certificates import subject_name
from mqclient.wire import packets as wire
from mqclient.wire.message import CoreMessage, encode_message
from tests.integration.server.wire_client import BrokerCase, WireClient, reactor


class TlsTests(BrokerCase):
    def setUp(self) -> None:
        super().setUp()
        self.authority = trustme.CA()
        self.server_certificate = self.authority.issue_cert("localhost", "127.0.0.1")
        self.authority.cert_pem.write_to_path(self.folder / "ca.pem")
        self.server_certificate.private_key_and_cert_chain_pem.write_to_path(self.folder / "server.pem")

    def pkcs12(self, password: str) -> Path:
        key: Any = load_pem_private_key(self.server_certificate.private_key_pem.bytes(), None)
        certificate = load_pem_x509_certificate(self.server_certificate.cert_chain_pems[0].bytes())
        path = self.folder / "server.p12"
        path.write_bytes(
            pkcs12.serialize_key_and_certificates(b"server", key, certificate, None, BestAvailableEncryption(password.encode()))
        )
        return path

    def tls(self, certificate: Any = None, name: str = "localhost", **options: Any) -> Any:
        """What a client trusts and shows."""
        mine = None if certificate is None else PrivateCertificate.loadPEM(certificate.private_key_and_cert_chain_pem.bytes())
        trust = Certificate.loadPEM(self.authority.cert_pem.bytes())
        return optionsForClientTLS(name, trust, mine, extraCertificateOptions=options or None)

    def broker(self, parameters: str) -> Broker:
        return self.start(f"tcp://127.0.0.1:0?sslEnabled=true;{parameters}")

    async def refused(self, broker: Broker, tls: Any) -> None:
        """The client gets no answer."""
        client = await self.connect(broker, tls=tls)
        await client.closed
        self.assertEqual(client.packets, [])
        self.flushLoggedErrors(SSL.Error)

    async def test_pem(self) -> None:
        broker = self.broker("keyStorePath=server.pem")
        client = await self.connect(broker, tls=self.tls())
        await client.ping()
        await client.open()

    async def test_pkcs12_with_password(self) -> None:
        self.pkcs12("secret")
        broker = self.broker("keyStorePath=server.p12;keyStorePassword=secret")
        await (await self.connect(broker, tls=self.tls())).ping()

    def test_stores_that_cannot_be_used(self) -> None:
        self.pkcs12("secret")
        for parameters, words in (
            ("keyStorePath=server.p12;keyStorePassword=wrong", "wrong password"),
            ("keyStorePath=missing.pem", "missing.pem cannot be read"),
            ("keyStorePath=old.jks", "keytool"),
            ("keyStorePath=ca.pem", "keyStorePath=ca.pem"),
            ("keyStorePath=server.pem;needClientAuth=true", "trustStorePath"),
            ("keyStorePath=server.pem;enabledProtocols=TLSv1.9", "TLSv1.9"),
        ):
            (self.folder / "old.jks").write_bytes(b"\xce\xce\xce\xce")
            error = self.assertRaises(StartError, self.broker, parameters)
            self.assertIn(words, str(error))
            self.assertIn("a0", str(error))

    async def test_required_client_certificates(self) -> None:
        broker = self.broker("keyStorePath=server.pem;trustStorePath=ca.pem;needClientAuth=true")
        await self.refused(broker, self.tls())
        await self.refused(broker, self.tls(trustme.CA().issue_cert("stranger")))
        client = await self.connect(broker, tls=self.tls(self.authority.issue_cert("me", common_name="me")))
        await client.ping()
        (connection,) = broker.server.connections.values()
        self.assertIn("CN=me", str(subject_name(connection.certificate)))

    async def test_wanted_client_certificates(self) -> None:
        broker = self.broker("keyStorePath=server.pem;trustStorePath=ca.pem;wantClientAuth=true")
        await (await self.connect(broker, tls=self.tls())).ping()
        await self.refused(broker, self.tls(trustme.CA().issue_cert("stranger")))

    async def test_the_host_in_client_certificates(self) -> None:
        broker = self.broker("keyStorePath=server.pem;trustStorePath=ca.pem;needClientAuth=true;verifyHost=true")
        await self.refused(broker, self.tls(self.authority.issue_cert("elsewhere.example")))
        await (await self.connect(broker, tls=self.tls(self.authority.issue_cert("127.0.0.1")))).ping()

    async def test_server_names(self) -> None:
        broker = self.broker("keyStorePath=server.pem;sniHost=local.*")
        await (await self.connect(broker, tls=self.tls())).ping()
        await self.refused(broker, self.tls(name="other.example"))

    async def test_versions(self) -> None:
        broker = self.broker("keyStorePath=server.pem;enabledProtocols=TLSv1.2")
        client = await self.connect(broker, tls=self.tls())
        await client.ping()
        transport: Any = client.transport
        self.assertEqual(transport.getHandle().get_protocol_version_name(), "TLSv1.2")
        await self.refused(broker, self.tls(raiseMinimumTo=TLSVersion.TLSv1_3))

    async def test_cipher_suites(self) -> None:
        broker = self.broker(
            "keyStorePath=server.pem;enabledCipherSuites=TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"
        )
        client = await self.connect(broker, tls=self.tls())
        await client.ping()
        transport: Any = client.transport
        self.assertIn("AES256-GCM-SHA384", transport.getHandle().get_cipher_name())

    async def test_a_plain_client_is_sent_away(self) -> None:
        broker = self.broker("keyStorePath=server.pem")
        client = await self.connect(broker)
        await client.closed
        self.assertEqual(client.packets, [])


class AcceptorTests(BrokerCase):
    async def test_connections_allowed(self) -> None:
        broker = self.start("tcp://127.0.0.1:0?connectionsAllowed=1")
        first = await self.connect(broker)
        await first.ping()
        await (await self.connect(broker)).closed
        await first.close()
        await self.until(lambda: not broker.server.connections)
        await (await self.connect(broker)).ping()

    async def until(self, condition: Any) -> None:
        for _ in range(200):
            if condition():
                return
            await deferLater(reactor, 0.01)
        self.fail("it did not happen within 2 s")

    async def test_several_acceptors_of_one_broker(self) -> None:
        broker = self.start("tcp://127.0.0.1:0", "tcp://127.0.0.1:0?anycastPrefix=queue/", "tcp://127.0.0.1:0?protocols=AMQP,STOMP")
        self.assertEqual([acceptor.name for acceptor in broker.acceptors], ["a0", "a1"], "one does not speak CORE")
        for number in range(2):
            client = await self.connect(broker, number)
            await client.open()
            client.send(wire.QueueQuery("queue/x"))
            answer = await client.next(wire.QueueQueryResponseV3)
            self.assertEqual(answer.name, ("queue/x", "x")[number])

    def test_a_taken_port_is_told_and_leaves_nothing_open(self) -> None:
        before = set(reactor.getDelayedCalls())
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = taken.getsockname()[1]
            error = self.assertRaises(StartError, self.start, "tcp://127.0.0.1:0", f"tcp://127.0.0.1:{port}")
            self.assertIn(str(port), str(error))
            self.assertNotIn("\n", str(error))
        later = reactor.seconds() + 0.5
        self.assertEqual([call for call in reactor.getDelayedCalls() if call not in before and call.getTime() > later], [])

    async def test_one_that_management_starts(self) -> None:
        broker = self.start("tcp://127.0.0.1:0?autoStart=false")
        self.assertEqual(broker.urls, [])
        self.assertFalse(broker.registry.attribute("acceptor.a0", "started"))
        broker.registry.invoke("acceptor.a0", "start", [])
        client = await self.connect(broker)
        await client.ping()
        broker.registry.invoke("acceptor.a0", "stop", [])
        self.assertEqual(broker.urls, [])
        await client.ping()

    async def test_the_handshake_time_out_of_one_acceptor(self) -> None:
        broker = self.start("tcp://127.0.0.1:0?handshake-timeout=1")
        client = await self.connect(broker)
        await client.closed

    async def test_socket_buffers(self) -> None:
        broker = self.start("tcp://127.0.0.1:0?tcpSendBufferSize=20000;tcpReceiveBufferSize=30000", "tcp://127.0.0.1:0")
        sizes = []
        for number in range(2):
            client = await self.connect(broker, number)
            await client.ping()
            *_, connection = broker.server.connections.values()
            handle = connection._transport._transport.getHandle()  # type: ignore[attr-defined]
            sizes.append([handle.getsockopt(socket.SOL_SOCKET, option) for option in (socket.SO_SNDBUF, socket.SO_RCVBUF)])
        # Linux doubles what it is told.
        self.assertIn(sizes[0], ([20000, 30000], [40000, 60000]))
        self.assertNotEqual(sizes[0], sizes[1])

    async def test_a_security_domain_of_its_own(self) -> None:
        guests = LoginModule("org.apache.activemq.artemis.spi.core.security.jaas.GuestLoginModule", "required", {}, 1)
        broker = self.start(
            "tcp://127.0.0.1:0", "tcp://127.0.0.1:0?securityDomain=guests", domains={"guests": [guests]}, security_enabled=True
        )
        await (await self.connect(broker, 1)).open()
        with self.assertRaises(RuntimeError):
            await (await self.connect(broker, 0)).open()

    def test_an_unknown_security_domain_stops_the_start(self) -> None:
        error = self.assertRaises(StartError, self.start, "tcp://127.0.0.1:0?securityDomain=gests", domains={"guests": []})
        self.assertIn("guests", str(error))


class SlowPeerTests(BrokerCase):
    async def test_a_peer_that_does_not_read_is_delivered_no_more(self) -> None:
        broker = self.start()
        sender = await self.connect(broker)
        await sender.open()
        slow = await self.connect(broker)
        await slow.open()
        slow.send(wire.CreateQueueV2("q", "q", durable=False, routing_type=1))
        await slow.next(wire.NullResponse)
        transport: Any = slow.transport
        transport.pauseProducing()
        slow.send(wire.CreateConsumer(0, "q", requires_response=False))
        slow.send(wire.FlowToken(0, -1))
        slow.send(wire.SessionStart())
        queue = broker.messaging.core.queues["q"]
        body = bytes(500_000)
        for number in range(40):
            await self.publish(sender, body, number)
        self.assertGreater(queue.references.count, 10, "they stay in the queue")
        transport.resumeProducing()
        for _ in range(40):
            await slow.next(wire.SessionReceive)
        self.assertEqual(queue.references.count, 0)

    async def publish(self, client: WireClient, body: bytes, number: int) -> None:
        client.send(wire.SessionSend(encode_message(CoreMessage(address="q", body=body)), True, number))
        await client.next(wire.NullResponse)
