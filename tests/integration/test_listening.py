"""Acceptors that cannot listen, and those that go over to another server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from twisted.internet.protocol import Factory

from mqbroker.app import StartError
from tests.integration.server.wire_client import reactor
from tests.integration.test_app import Sender


class ListeningTests(Sender):
    async def test_starts_that_are_refused_for_a_taken_port_leave_the_folder_as_it_was(self) -> None:
        broker = self.start(persistence_enabled=True)
        client = await self.client(broker)
        await self.make_queue(client)
        await self.publish(client, b"kept")
        await self.stop(broker)
        holder = reactor.listenTCP(0, Factory(), interface="127.0.0.1")
        self.addCleanup(holder.stopListening)

        def contents() -> dict[Path, bytes]:
            return {path: path.read_bytes() for path in self.folder.rglob("*") if path.is_file()}

        before = contents()
        for _ in range(3):
            error = self.assertRaises(StartError, self.start, f"tcp://127.0.0.1:{holder.getHost().port}", persistence_enabled=True)
            self.assertIn("cannot be opened", str(error))
            self.assertEqual(contents(), before)
        broker = self.start(persistence_enabled=True)
        self.assertEqual(broker.messaging.core.queues["q"].message_count, 1)

    async def test_open_acceptors_go_over_to_another_server(self) -> None:
        broker = self.start()
        [port] = [acceptor.addresses[0].port for acceptor in broker.acceptors]
        taken: list[str] = []

        class Second:
            clock = broker.clock

            def connect(self, transport: Any, remote: str, *args: Any, **options: Any) -> Any:
                taken.append(remote)
                return broker.server.connect(transport, remote, *args, **options)

        broker.listeners.serve(Second())
        await self.client(broker)
        self.assertEqual((len(taken), broker.acceptors[0].addresses[0].port), (1, port))
