"""A work queue under asyncio: workers share the jobs, a job that fails comes again, and all live through a restart of the broker."""

import asyncio
import contextlib
import os
import sys

from mqclient.asyncio import server_locator
from mqclient.core.api import ClientSessionFactory, FailoverEvent, QueueConfiguration
from mqclient.errors import QueueExistsError
from mqclient.wire.bodies import decode_text, encode_text
from mqclient.wire.message import TYPE_TEXT

url = sys.argv[1] if len(sys.argv) > 1 else os.environ.get("BROKER_URL", "tcp://127.0.0.1:61616")
QUEUE = "example.jobs"
JOBS, WORKERS = 10, 3


async def do(job: str, attempt: int) -> None:
    await asyncio.sleep(0.01)
    if job == "job 3" and attempt == 1:
        raise RuntimeError("out of paper")


async def work(factory: ClientSessionFactory, name: str, done: asyncio.Queue[str]) -> None:
    # A session of its own for each worker: a commit is of everything that its session has received and sent.
    session = await factory.create_session(auto_commit_sends=False, auto_commit_acks=False)
    consumer = await session.create_consumer(QUEUE)
    await session.start()
    async for message in consumer:
        job = decode_text(message.body) or ""
        await message.acknowledge()  # takes effect with the commit
        try:
            await do(job, message.delivery_count)
            await session.commit()
        except Exception as error:
            print(f"{name}: {job} failed ({error}) and comes again")
            await session.rollback()
        else:
            print(f"{name}: {job} is done")
            done.put_nowait(job)


def connection_changed(event: FailoverEvent) -> None:
    print("connection:", event.name)


async def main() -> None:
    # One message at a time for each worker, so that nobody hoards jobs; and a broker that has gone away is waited for.
    locator = server_locator(f"{url}?consumerWindowSize=0&reconnectAttempts=-1")
    try:
        factory = await locator.create_session_factory()
        factory.add_failover_listener(connection_changed)
        session = await factory.create_session()
        with contextlib.suppress(QueueExistsError):
            await session.create_queue(QueueConfiguration(name=QUEUE))
        producer = await session.create_producer(QUEUE)
        for number in range(JOBS):
            message = session.create_message(TYPE_TEXT)
            message.body = encode_text(f"job {number}")
            await producer.send(message)

        done: asyncio.Queue[str] = asyncio.Queue()
        async with asyncio.TaskGroup() as group:
            workers = [group.create_task(work(factory, f"worker {number}", done)) for number in range(WORKERS)]
            for _ in range(JOBS):
                await done.get()
            for worker in workers:
                worker.cancel()  # a job that is not committed comes again
    finally:
        await locator.close()


asyncio.run(main())
