"""The shells over real sockets, plain and with TLS."""

from __future__ import annotations

import asyncio
import datetime
import os
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import trustme
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, load_pem_private_key, pkcs12
from cryptography.x509 import load_pem_x509_certificate
from OpenSSL import SSL
from twisted.internet import reactor
from twisted.internet.defer import Deferred
from twisted.internet.ssl import Certificate, CertificateOptions, PrivateCertificate, trustRootFromCertificates
from twisted.internet.threads import deferToThread
from twisted.logger import globalLogPublisher
from twisted.trial.unittest import TestCase

import mqclient.asyncio
import mqclient.sockets
import mqclient.twisted
from mqclient.blocking import Runner, get_runner
from mqclient.core.api import LocatorSettings, TransportConfiguration
from mqclient.errors import IllegalStateError, NotConnectedError, ObjectClosedError, OperationTimeoutError
from mqclient.sockets import SocketRuntime
from tests.integration.mqclient.server import SocketBroker


class ShellTestCase(TestCase):
    timeout = 20

    def setUp(self) -> Any:
        self.broker = SocketBroker()
        return Deferred.fromCoroutine(self.broker.listen())

    def tearDown(self) -> Any:
        return Deferred.fromCoroutine(self.broker.stop())

    def url(self, parameters: str = "") -> str:
        return f"tcp://127.0.0.1:{self.broker.port}?callTimeout=5000{parameters}"

    def connectors(self) -> list[TransportConfiguration]:
        return [TransportConfiguration("it", "netty", (("host", "127.0.0.1"), ("port", str(self.broker.port))))]


async def exchange(locator: Any) -> list[int]:
    """Send and receive three messages; written once for both frameworks."""
    factory = await locator.create_session_factory()
    session = await factory.create_session("user", "password")
    producer = await session.create_producer("q")
    consumer = await session.create_consumer("q")
    await session.start()
    received = []
    for _ in range(3):
        await producer.send(session.create_message())
        found = await consumer.receive(2000)
        await found.acknowledge()
        received.append(found.message_id)
    assert await consumer.receive(50) is None
    await locator.close()
    return received


class TwistedTests(ShellTestCase):
    async def test_exchange(self) -> None:
        self.assertEqual(await exchange(mqclient.twisted.server_locator(self.url())), [1, 2, 3])

    async def test_connections_leave_the_log_alone(self) -> None:
        events: list[Any] = []
        globalLogPublisher.addObserver(events.append)
        self.addCleanup(globalLogPublisher.removeObserver, events.append)
        await exchange(mqclient.twisted.server_locator(self.url()))
        self.assertEqual([event for event in events if "starting factory" in str(event.get("log_format")).lower()], [])

    async def test_reconnect(self) -> None:
        locator = mqclient.twisted.server_locator(self.url("&reconnectAttempts=20&retryInterval=50"))
        factory = await locator.create_session_factory()
        session = await factory.create_session()
        consumer = await session.create_consumer("q")
        await session.start()
        receive = consumer.receive()
        self.broker.cut()
        producer = await session.create_producer("q")
        await producer.send(session.create_message())
        self.assertIsNotNone(await receive)
        await locator.close()

    async def test_nobody_listens(self) -> None:
        await self.broker.stop()
        locator = mqclient.twisted.server_locator(self.url())
        call: Any = locator.create_session_factory()
        error: Any = await self.assertFailure(call, NotConnectedError)
        self.assertIn(str(self.broker.port), str(error))
        await self.broker.listen()

    def test_url_and_settings_exclude_each_other(self) -> None:
        self.assertRaises(ValueError, mqclient.twisted.server_locator, self.url(), LocatorSettings())


class AsyncioTests(ShellTestCase):
    def run_asyncio(self, function: Callable[[], Any]) -> Any:
        return deferToThread(lambda: asyncio.run(function()))

    async def test_exchange(self) -> None:
        async def main() -> list[int]:
            return await exchange(mqclient.asyncio.server_locator(self.url()))

        self.assertEqual(await self.run_asyncio(main), [1, 2, 3])

    async def test_cancelled_receive(self) -> None:
        async def main() -> str:
            locator = mqclient.asyncio.server_locator(self.connectors(), LocatorSettings(call_timeout=5000))
            factory = await locator.create_session_factory()
            session = await factory.create_session()
            consumer = await session.create_consumer("q")
            try:
                await asyncio.wait_for(asyncio.ensure_future(consumer.receive()), 0.05)
            except TimeoutError:
                return "ended"
            finally:
                await locator.close()
            return "went on"

        self.assertEqual(await self.run_asyncio(main), "ended")

    async def test_nobody_listens(self) -> None:
        async def main() -> str:
            try:
                await mqclient.asyncio.server_locator("tcp://127.0.0.1:1").create_session_factory()
            except NotConnectedError as error:
                return str(error)
            return "connected"

        self.assertIn("127.0.0.1:1 cannot be reached", await self.run_asyncio(main))


class BlockingTests(ShellTestCase):
    """In worker threads, on the reactor of the test, and on a reactor of the runner's own."""

    async def in_thread(self, function: Callable[[Runner], Any]) -> list[Any]:
        return [await deferToThread(function, runner) for runner in (Runner(reactor), Runner(None))]

    def open(self, runner: Runner, **settings: Any) -> Any:
        locator = runner.locator(self.connectors(), LocatorSettings(call_timeout=5000, **settings))
        factory = runner.call(locator.create_session_factory)
        session = runner.call(factory.create_session)
        runner.call(session.start)
        return locator, session

    async def test_exchange(self) -> None:
        def work(runner: Runner) -> list[bool]:
            locator, session = self.open(runner)
            producer = runner.call(session.create_producer, "q")
            consumer = runner.create_consumer(session, "q")
            found = []
            for _ in range(3):
                runner.call(producer.send, session.create_message())
                received = consumer.receive(2000)
                assert received is not None
                consumer.acknowledge(received)
                found.append(runner.read_body(received) == b"")
            assert consumer.receive_immediate() is None
            runner.call(locator.close)
            return found

        self.assertEqual(await self.in_thread(work), [[True] * 3] * 2)

    async def test_receive_ends_when_another_thread_closes(self) -> None:
        def work(runner: Runner) -> Any:
            locator, session = self.open(runner)
            consumer = runner.create_consumer(session, "q")
            threading.Timer(0.05, runner.call, (session.close,)).start()
            found = consumer.receive()
            self.assertRaises(ObjectClosedError, consumer.receive)
            runner.call(locator.close)
            return found, consumer.closed

        self.assertEqual(await self.in_thread(work), [(None, True)] * 2)

    async def test_listener_runs_in_the_dispatcher(self) -> None:
        def work(runner: Runner) -> Any:
            locator, session = self.open(runner, consumer_window_size=0)
            producer = runner.call(session.create_producer, "q")
            consumer = runner.create_consumer(session, "q")
            dispatcher = runner.dispatcher(session)
            enough, threads = threading.Event(), []

            def listen(received: Any) -> None:
                threads.append(dispatcher.in_thread())
                consumer.acknowledge(received)
                if len(threads) == 1:
                    raise RuntimeError("the application's")
                enough.set()

            consumer.set_message_handler(listen, dispatcher)
            for _ in range(2):
                runner.call(producer.send, session.create_message())
            assert enough.wait(5)
            self.assertRaises(IllegalStateError, consumer.receive)
            assert dispatcher.wait_idle(1000)
            assert dispatcher.close(1000)
            runner.call(locator.close)
            return threads

        with self.assertLogs("mqclient.shells.threads", "ERROR") as logs:
            self.assertEqual(await self.in_thread(work), [[True, True]] * 2)
        self.assertEqual(["a listener failed" in line for line in logs.output], [True, True])

    async def test_call_with_a_limit(self) -> None:
        def work(runner: Runner) -> Any:
            locator, session = self.open(runner)
            consumer = runner.call(session.create_consumer, "q")
            self.assertRaises(OperationTimeoutError, runner.call, consumer.receive, timeout=50)
            runner.call(locator.close)

        await self.in_thread(work)

    async def test_not_in_the_reactors_thread(self) -> None:
        runner = Runner(reactor)
        await deferToThread(runner.call, lambda: None)
        self.assertRaises(IllegalStateError, runner.call, lambda: None)

        def work(own: Runner) -> Any:
            return own.call(lambda: self.assertRaises(IllegalStateError, own.call, lambda: None) and True)

        self.assertEqual(len(await self.in_thread(work)), 2)

    async def test_runner_of_the_process(self) -> None:
        runner = get_runner()
        self.assertIs(runner, get_runner())
        self.assertTrue(runner.usable)

    async def test_fork_is_noticed(self) -> None:
        def work(runner: Runner) -> int:
            runner.call(lambda: None)
            child = os.fork()
            if child == 0:
                try:
                    runner.call(lambda: None)
                except IllegalStateError:
                    os._exit(42)
                os._exit(1)
            return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

        self.assertEqual(await deferToThread(work, Runner(None)), 42)


class TlsTests(TestCase):
    timeout = 20

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
        url = f"tcp://127.0.0.1:{port}?sslEnabled=true&callTimeout=1000&{parameters}"

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

    async def test_client_certificate(self) -> None:
        await self.serve(mutual=True)
        trust = f"trustStorePath={self.trust}"
        self.assertEqual(await self.attempt(f"{trust}&keyStorePath={self.client_store}&keyStorePassword=pw"), ["3 messages"] * 3)
        self.assertEqual(await self.attempt(f"{trust}&keyStorePath={self.client_pem}"), ["3 messages"] * 3)
        self.assertNotIn("3 messages", await self.attempt(trust))

    async def test_protocols_and_suites(self) -> None:
        await self.serve()
        trust = f"trustStorePath={self.trust}&"
        negotiated = []
        for parameters in (
            "enabledProtocols=TLSv1.2",
            "enabledProtocols=TLSv1.2,TLSv1.3",
            "enabledCipherSuites=TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
            "enabledCipherSuites=ECDHE-ECDSA-AES128-GCM-SHA256,TLS_AES_128_GCM_SHA256&enabledProtocols=TLSv1.2",
        ):
            self.assertEqual(await self.attempt(trust + parameters), ["3 messages"] * 3, parameters)
            negotiated.append(self.broker.negotiated[-3:])
        self.assertEqual([version for version, _ in negotiated[0]], ["TLSv1.2"] * 3)
        self.assertEqual([version for version, _ in negotiated[1]], ["TLSv1.3"] * 3)
        self.assertEqual(negotiated[2], [("TLSv1.2", "ECDHE-ECDSA-AES256-GCM-SHA384")] * 3)
        self.assertEqual(negotiated[3], [("TLSv1.2", "ECDHE-ECDSA-AES128-GCM-SHA256")] * 3)
        for parameters in (
            "enabledProtocols=TLSv1.4",
            "enabledProtocols=TLSv1.1,TLSv1.3",
            "enabledCipherSuites=TLS_NOBODY_KNOWS",
            "enabledCipherSuites=TLS_AES_128_GCM_SHA256&enabledProtocols=TLSv1.2",
        ):
            self.assertEqual(await self.attempt(trust + parameters), ["NotConnectedError"] * 3, parameters)

    async def test_one_suite_of_the_newest_version(self) -> None:
        """Among those only OpenSSL's own interface can choose."""
        await self.serve()
        results = await self.attempt(f"trustStorePath={self.trust}&enabledCipherSuites=TLS_AES_128_GCM_SHA256")
        self.assertEqual(results, ["3 messages", "NotConnectedError", "NotConnectedError"])
        self.assertEqual(self.broker.negotiated, [("TLSv1.3", "TLS_AES_128_GCM_SHA256")])

    async def test_revoked_certificate(self) -> None:
        await self.serve()
        nothing, all_revoked = self.revocations(), self.revocations(self.server_serial)
        for kind in ("", "&verifyHost=false"):
            trust = f"trustStorePath={self.trust}{kind}&crlPath="
            self.assertEqual(await self.attempt(f"{trust}{nothing}"), ["3 messages"] * 3)
            self.assertEqual(await self.attempt(f"{trust}{all_revoked}"), ["NotConnectedError"] * 3)
            self.assertEqual(await self.attempt(f"{trust}{self.trust}"), ["NotConnectedError"] * 3)

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

    async def test_stores_that_cannot_be_used(self) -> None:
        await self.serve()
        trust = f"trustStorePath={self.trust}"
        for parameters in (
            f"{trust}&keyStorePath={self.client_store}&keyStorePassword=wrong",
            f"{trust}&keyStorePath={self.trust}",
            "trustStorePath=/does/not/exist",
        ):
            self.assertEqual(await self.attempt(parameters), ["NotConnectedError"] * 3, parameters)
