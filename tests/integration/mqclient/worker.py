"""Programs of their own process, written once for each shell: ``python -m tests.integration.mqclient.worker SHELL PROGRAM URL QUEUE``."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import Any

from twisted.internet import reactor, task
from twisted.internet.defer import Deferred

import mqclient.asyncio
import mqclient.sockets
import mqclient.twisted

MESSAGES = 50


async def acknowledge(locator: Any, queue: str) -> None:
    """Take the messages one by one, and end without closing anything."""
    session = await (await locator.create_session_factory()).create_session()
    consumer = await session.create_consumer(queue)
    await session.start()
    for _ in range(MESSAGES):
        received = await consumer.receive()
        await received.acknowledge()


async def wait(locator: Any, queue: str) -> None:
    """Say that messages are waited for, and wait for them."""
    session = await (await locator.create_session_factory()).create_session()
    consumer = await session.create_consumer(queue)
    await session.start()
    print("waiting", flush=True)
    async for _ in consumer:
        pass


PROGRAMS = {"acknowledge": acknowledge, "wait": wait}


def main(shell: str, program: Any, url: str, queue: str) -> None:
    if shell == "asyncio":

        async def under_asyncio() -> None:
            await program(mqclient.asyncio.server_locator(url), queue)
            os._exit(0)

        asyncio.run(under_asyncio())
    elif shell == "twisted":

        async def under_twisted() -> None:
            await program(mqclient.twisted.server_locator(url), queue)
            # The reactor writes to its sockets between two turns; whoever waits for the broker's answer has had these.
            if "blockOnAcknowledge" not in url:
                for _ in range(2):
                    await task.deferLater(reactor, 0)  # type: ignore[arg-type]
            os._exit(0)

        task.react(lambda _: Deferred.fromCoroutine(under_twisted()))
    else:
        runtime = mqclient.sockets.SocketRuntime()
        runtime.run(program(mqclient.sockets.server_locator(url, runtime=runtime), queue))
        os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1], PROGRAMS[sys.argv[2]], sys.argv[3], sys.argv[4])
