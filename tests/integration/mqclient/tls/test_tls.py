"""Connections with TLS."""

from __future__ import annotations

import asyncio
import datetime
import socket
from pathlib import Path
from typing import Any

import trustme
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, load_pem_private_key, pkcs12
from cryptography.x509 import load_pem_x509_certificate
from OpenSSL import SSL
from twisted.internet.defer import Deferred
from twisted.internet.ssl import Certificate, CertificateOptions, PrivateCertificate, trustRootFromCertificates
from twisted.internet.threads import deferToThread
from twisted.trial.unittest import TestCase

import mqclient.asyncio
import mqclient.sockets
import mqclient.twisted
from mqclient.errors import NotConnectedError
from mqclient.sockets import SocketRuntime
from tests.integration.mqclient.exchange import exchange
from tests.integration.mqclient.server import SocketBroker


class TlsCase(TestCase):
    timeout = 100  # s: for a busy machine

    def setUp(self) -> None:
        folder = Path(self.mktemp())
        folder.mkdir(parents=True)
        self.authority = trustme.CA()
        self.trust = folder / "ca.pem"
        self.authority.cert_pem.write_to_path(self.trust)
        self.stranger = folder / "stranger.pem"
        trustme.CA().cert_pem.write_to_path(self.stranger)
        client = self.authority.issue_cert("client@example.org")
        key = load_pem_private_key(client.private_key_pem.bytes(), None)
        certificate = load_pem_x509_certificate(client.cert_chain_pems[0].bytes())
        self.client_store = folder / "client.p12"
        known: Any = key
        store = pkcs12.serialize_key_and_certificates(b"me", known, certificate, None, BestAvailableEncryption(b"pw"))
        self.client_store.write_bytes(store)
        self.client_pem = folder / "client.pem"
        self.client_pem.write_bytes(client.private_key_and_cert_chain_pem.bytes())

    async def serve(self, host: str = "127.0.0.1", mutual: bool = False) -> None:
        issued = self.authority.issue_cert(host)
        self.server_serial = load_pem_x509_certificate(issued.cert_chain_pems[0].bytes()).serial_number
        load: Any = PrivateCertificate.loadPEM
        own = load(issued.private_key_pem.bytes() + issued.cert_chain_pems[0].bytes())
        options: dict[str, Any] = {}
        if mutual:
            certificate: Any = Certificate.loadPEM
            trust: Any = trustRootFromCertificates
            options["trustRoot"] = trust([certificate(self.trust.read_bytes())])
        self.broker = SocketBroker()
        await self.broker.listen(CertificateOptions(privateKey=own.privateKey.original, certificate=own.original, **options))

        def stop() -> Any:
            return Deferred.fromCoroutine(self.broker.stop())

        self.addCleanup(stop)

    async def attempt(self, parameters: str) -> list[str]:
        """What comes of it under Twisted, under asyncio and on plain sockets: so many messages, or the kind of error."""
        return [
            result if isinstance(result, str) else type(result).__name__ for result in await self.outcomes(self.broker.port, parameters)
        ]

    async def outcomes(self, port: int, parameters: str) -> list[str | Exception]:
        url = f"tcp://127.0.0.1:{port}?sslEnabled=true&callTimeout=20000&{parameters}"

        async def main() -> list[int]:
            return await exchange(mqclient.asyncio.server_locator(url))

        results: list[str | Exception] = []
        for run in (
            lambda: Deferred.fromCoroutine(exchange(mqclient.twisted.server_locator(url))),
            lambda: deferToThread(lambda: asyncio.run(main())),
            lambda: deferToThread(self.on_plain_sockets, url),
        ):
            try:
                results.append(f"{len(await run())} messages")
            except Exception as error:
                results.append(error)
        self.flushLoggedErrors(SSL.Error)
        return results

    def on_plain_sockets(self, url: str) -> list[int]:
        with SocketRuntime() as runtime:
            return runtime.run(exchange(mqclient.sockets.server_locator(url, runtime=runtime)), 20)

    def revocations(self, *serials: int) -> Path:
        """A file that says which certificates of the authority are not valid any more."""
        key: Any = load_pem_private_key(self.authority.private_key_pem.bytes(), None)
        now = datetime.datetime.now(datetime.UTC)
        day = datetime.timedelta(days=1)
        builder = x509.CertificateRevocationListBuilder(
            load_pem_x509_certificate(self.authority.cert_pem.bytes()).subject, now - day, now + day
        )
        for serial in serials:
            builder = builder.add_revoked_certificate(x509.RevokedCertificateBuilder(serial, now - day).build())
        path = self.trust.parent / f"revoked-{len(serials)}.pem"
        path.write_bytes(builder.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM))
        return path


class TlsTests(TlsCase):
    async def test_trusted(self) -> None:
        await self.serve()
        self.assertEqual(await self.attempt(f"trustStorePath={self.trust}"), ["3 messages"] * 3)

    async def test_authority_is_not_trusted(self) -> None:
        await self.serve()
        for error in await self.outcomes(self.broker.port, f"trustStorePath={self.stranger}"):
            self.assertIsInstance(error, NotConnectedError)
            self.assertIn("certificate verify failed", str(error))
            self.assertNotIn("is it a TLS acceptor", str(error))

    async def test_an_acceptor_without_tls(self) -> None:
        self.broker = SocketBroker()
        await self.broker.listen()
        self.addCleanup(lambda: Deferred.fromCoroutine(self.broker.stop()))
        self.broker.received = lambda link, data: self.broker.cut()  # type: ignore[method-assign]
        for error in await self.outcomes(self.broker.port, "trustAll=true"):
            self.assertIsInstance(error, NotConnectedError)
            self.assertIn("is it a TLS acceptor, with sslEnabled=true?", str(error))

    async def test_an_acceptor_that_waits_in_silence_costs_no_longer_than_the_limit_on_connecting(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as server:
            for error in await self.outcomes(server.getsockname()[1], "trustAll=true&connect-timeout-millis=100"):
                self.assertIsInstance(error, NotConnectedError)
                self.assertIn("no answer in time; is it a TLS acceptor, with sslEnabled=true?", str(error))

    async def test_nobody_listens(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = server.getsockname()[1]
        for error in await self.outcomes(port, "trustAll=true"):
            self.assertIsInstance(error, NotConnectedError)
            self.assertNotIn("is it a TLS acceptor", str(error))

    async def test_certificate_of_another_host(self) -> None:
        await self.serve("elsewhere.example.org")
        self.assertEqual(await self.attempt(f"trustStorePath={self.trust}"), ["NotConnectedError"] * 3)
        self.assertEqual(await self.attempt(f"trustStorePath={self.trust}&verifyHost=false"), ["3 messages"] * 3)
        self.assertEqual(await self.attempt("trustAll=true"), ["3 messages"] * 3)

    async def test_verification_without_host_name_still_wants_the_authority(self) -> None:
        await self.serve("elsewhere.example.org")
        self.assertEqual(await self.attempt(f"trustStorePath={self.stranger}&verifyHost=false"), ["NotConnectedError"] * 3)

    async def test_stores_that_cannot_be_used(self) -> None:
        await self.serve()
        trust = f"trustStorePath={self.trust}"
        for parameters in (
            f"{trust}&keyStorePath={self.client_store}&keyStorePassword=wrong",
            f"{trust}&keyStorePath={self.trust}",
            "trustStorePath=/does/not/exist",
        ):
            self.assertEqual(await self.attempt(parameters), ["NotConnectedError"] * 3, parameters)
