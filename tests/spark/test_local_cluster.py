"""A cluster of Spark on this machine: a master and two workers, whose executors read and write a broker."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pyspark
import pytest

from tests.interop.processes import ManagedProcess
from tests.spark.cluster_program import BATCH, EXECUTORS, IN, STREAM
from tests.spark.support import QUICK_JAVA, ROOT, MqbrokerProcess, all_numbers, environment, message_count, send_numbered

SPARK_CLASS = Path(pyspark.__file__).parent / "bin" / "spark-class"
SECONDS = 480.0
COUNT = 2_500


def spark_class(stack: ExitStack, folder: Path, name: str, *arguments: str) -> ManagedProcess:
    """A class of Spark in a process of its own, on ports that the system chooses."""
    folder.mkdir(parents=True)
    command = [str(SPARK_CLASS), f"org.apache.spark.deploy.{name}", "--host", "127.0.0.1", "--port", "0", "--webui-port", "0", *arguments]
    process = ManagedProcess(
        command, folder, environment() | {"SPARK_DAEMON_MEMORY": "256m", "SPARK_DAEMON_JAVA_OPTS": "-Dspark.ui.enabled=false " + QUICK_JAVA}
    )
    stack.callback(process.kill)
    return process


@pytest.fixture
def master(tmp_path: Path) -> Iterator[str]:
    """The URL of a master with two workers of one core."""
    with ExitStack() as stack:
        process = spark_class(stack, tmp_path / "master", "master.Master")
        found = re.search(r"spark://127\.0\.0\.1:\d+", process.wait_for_line("Starting Spark master at", SECONDS))
        assert found is not None
        for number in range(2):
            folder = tmp_path / f"worker{number}"
            spark_class(stack, folder, "worker.Worker", "--cores", "1", "--memory", "1g", "--work-dir", str(folder / "work"), found[0])
        for _ in range(2):
            process.wait_for_line("Registering worker", SECONDS)
        yield found[0]


def test_a_batch_and_a_stream_on_two_workers(master: str, broker: MqbrokerProcess, tmp_path: Path) -> None:
    send_numbered(broker.url, IN, COUNT)
    command = [sys.executable, "-m", "tests.spark.cluster_program", master, broker.url, str(tmp_path / "program")]
    program = ManagedProcess(command, ROOT, environment())
    try:
        assert program.wait(SECONDS) == 0, program.tail()
    finally:
        program.kill()
    assert f"{EXECUTORS} 2" in program.output()
    for queue in (BATCH, STREAM):
        assert sorted(all_numbers(broker.url, queue, COUNT)) == list(range(COUNT))
    # What the stream has read last is settled by its next run.
    assert message_count(broker.url, IN) in (0, COUNT % 1000)
