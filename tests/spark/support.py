"""Brokers, messages and Spark sessions for the tests of the data sources.

A broker is the one of the interop suite: ``twistd mqbroker`` in a process of its own, with the users ``admin`` (everything) and ``nobody``
(nothing), and a port that stays its own when it is killed and started again.
"""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from mqclient.jms import ConnectionFactory, JMSContext
from tests.interop.artemis import QUICK_JAVA
from tests.interop.instance import PASSWORD, POWERLESS_PASSWORD, POWERLESS_USER, USER, Additions
from tests.interop.mqbroker_process import MqbrokerProcess
from tests.interop.processes import free_port

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["PASSWORD", "POWERLESS_PASSWORD", "POWERLESS_USER", "QUICK_JAVA", "USER", "Additions", "MqbrokerProcess"]

ROOT = Path(__file__).resolve().parents[2]
SOURCES = tuple(str(ROOT / part) for part in ("src", "clients/mqclient/src", "clients/mqspark/src", "plugins"))
COMMIT_EVERY = 5_000
"""Messages of one transaction of :func:`send_numbered`."""
MEMBERS_SECONDS = 60.0
MORE_MS = 500
"""Of waiting for a message that nobody awaits."""
NUMBER = "number"
"""The property in which a message has its number."""


def java_missing() -> str | None:
    """Why Spark cannot run here; None when a Java 17 or later is there."""
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=f"{home}/bin") if home else shutil.which("java")
    if java is None:
        return "java is not installed"
    answer = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=False)
    found = re.search(r'version "(\d+)', answer.stderr + answer.stdout)
    if found is None or int(found[1]) < 17:
        return f"Java 17 or later is needed, found {(answer.stderr or answer.stdout).strip() or 'nothing'}"
    return None


def environment(python: str = sys.executable) -> dict[str, str]:
    """For a process of Spark: our sources, and the interpreter for its workers."""
    inherited = [entry for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry and entry not in SOURCES]
    return os.environ | {
        "PYTHONPATH": os.pathsep.join([*SOURCES, str(ROOT), *inherited]),
        "PYSPARK_PYTHON": python,
        "PYSPARK_DRIVER_PYTHON": python,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LOCAL_HOSTNAME": "localhost",
    }


def new_session(folder: Path, master: str = "local[2,3]", python: str = sys.executable, **settings: object) -> SparkSession:
    """A Spark session in this process, which must have none; ``settings`` are Spark's, with ``__`` for a dot.

    A task is tried three times, as on a real cluster.
    """
    from pyspark.sql import SparkSession

    os.environ.update(environment(python))
    builder = SparkSession.builder.master(master).appName("mqspark-tests")
    chosen: dict[str, object] = {
        "spark.ui.enabled": "false",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.local.dir": str(folder / "local"),
        "spark.log.level": "WARN",
    }
    chosen.update({name.replace("__", "."): value for name, value in settings.items()})
    for name, value in chosen.items():
        builder = builder.config(name, str(value))
    return builder.getOrCreate()


def new_broker(folder: Path, additions: Additions | None = None, port: int = 0) -> MqbrokerProcess:
    """A broker in ``folder``, not started; ``additions`` are further elements of its broker.xml (see :func:`paged`)."""
    return MqbrokerProcess(folder, additions or Additions(name="spark"), port or free_port())


def new_cluster(folder: Path, size: int = 2, address_settings: str = "") -> list[MqbrokerProcess]:
    """Brokers of one symmetric cluster, not started; messages stay where they were sent."""
    ports = [free_port() for _ in range(size)]
    connectors = "".join(f'<connector name="node{number}">tcp://127.0.0.1:{port}</connector>' for number, port in enumerate(ports))
    brokers = []
    for number, port in enumerate(ports):
        others = "".join(f"<connector-ref>node{other}</connector-ref>" for other in range(size) if other != number)
        core = (
            f"<connectors>{connectors}</connectors><cluster-user>cluster</cluster-user><cluster-password>secret</cluster-password>"
            f'<cluster-connections><cluster-connection name="all"><connector-ref>node{number}</connector-ref>'
            f"<retry-interval>100</retry-interval><message-load-balancing>OFF</message-load-balancing>"
            f"<static-connectors>{others}</static-connectors></cluster-connection></cluster-connections>"
        )
        additions = Additions(name=f"node{number}", core=core, address_settings=address_settings)
        brokers.append(new_broker(folder / f"node{number}", additions, port))
    return brokers


def paged(match: str, max_size_bytes: int = 1 << 20, page_size_bytes: int = 1 << 18) -> str:
    """An address setting under which most of a queue lies in pages."""
    return (
        f'<address-setting match="{match}"><max-size-bytes>{max_size_bytes}</max-size-bytes>'
        f"<page-size-bytes>{page_size_bytes}</page-size-bytes><address-full-policy>PAGE</address-full-policy></address-setting>"
    )


def login(url: str) -> dict[str, str]:
    """The options that every query of a test begins with."""
    return {"url": url, "user": USER, "password": PASSWORD}


@contextmanager
def context(url: str, transacted: bool = False) -> Iterator[JMSContext]:
    """A JMS session of ``admin``."""
    from mqclient.jms import AcknowledgeMode

    mode = AcknowledgeMode.SESSION_TRANSACTED if transacted else AcknowledgeMode.AUTO_ACKNOWLEDGE
    with ConnectionFactory(url).create_context(USER, PASSWORD, session_mode=mode) as opened:
        yield opened


def send_numbered(
    url: str,
    destination: str,
    count: int,
    *,
    first: int = 0,
    body: Callable[[int], str | bytes] = str,
    properties: Callable[[int], dict[str, object]] = lambda number: {},
) -> None:
    """Send ``count`` durable messages, numbered from ``first`` on in the property ``number``, to a queue (or to ``topic://…``).

    In large transactions: about twenty thousand a second.
    """
    with context(url, transacted=True) as session:
        topic = destination.startswith("topic://")
        name = destination.removeprefix("topic://")
        target = session.create_topic(name) if topic else session.create_queue(name)
        producer = session.create_producer()
        for number in range(first, first + count):
            content = body(number)
            message = session.create_text_message(content) if isinstance(content, str) else session.create_bytes_message(content)
            message.set_long_property(NUMBER, number)
            for property_name, value in properties(number).items():
                message.set_object_property(property_name, value)
            producer.send(target, message)
            if (number - first) % COMMIT_EVERY == COMMIT_EVERY - 1:
                session.commit()
        session.commit()


def message_count(url: str, queue: str) -> int:
    """How many messages the queue holds; 0 when there is no such queue."""
    from mqclient.blocking import get_runner
    from mqclient.core.connection.configuration import configuration_from_url

    runner = get_runner()
    locator = runner.locator(configuration_from_url(url).brokers)
    try:
        factory = runner.call(locator.create_session_factory)
        session = runner.call(functools.partial(factory.create_session, USER, PASSWORD))
        answer = runner.call(session.queue_query, queue)
        return answer.message_count if answer.exists else 0
    finally:
        runner.call(locator.close)


def wait_for_members(url: str, count: int) -> None:
    """Until the cluster has so many members, as the broker at ``url`` knows them: it listens before it has a link to the others."""
    from mqspark.broker.broker import nodes
    from mqspark.options import Options, Use

    options = Options.parse(login(url), Use.JOB)
    deadline = time.monotonic() + MEMBERS_SECONDS
    while len(found := nodes(options)) != count:
        assert time.monotonic() < deadline, [str(node) for node in found]
        time.sleep(0.05)


def received_numbers(url: str, queue: str, count: int, timeout_ms: int = 10_000) -> list[int]:
    """Take ``count`` messages from a queue (fewer when no more come within ``timeout_ms``) and give their numbers."""
    numbers = []
    with context(url) as session:
        consumer = session.create_consumer(session.create_queue(queue))
        while len(numbers) < count:
            message = consumer.receive(timeout_ms)
            if message is None:
                break
            numbers.append(message.get_long_property(NUMBER))
    return numbers


def all_numbers(url: str, queue: str, count: int | None = None) -> list[int]:
    """Take everything from a queue and give the numbers.  ``count`` messages are awaited, by default as many as the broker counts.

    A message that is too much comes along.
    """
    awaited = message_count(url, queue) if count is None else count
    return received_numbers(url, queue, awaited) + received_numbers(url, queue, 1, MORE_MS)
