"""Runs every broker of one of the folders beside this file until Ctrl-C: ``python config/run_cluster.py config/cluster-symmetric``.

Each folder in it that has a broker.xml is one broker; its data go to ``data/`` in the current folder.  One with an etc/broker.xml is an
instance folder.  The one called ``artemis`` is a real Artemis, which is looked for in the folder that the environment variable ARTEMIS_HOME
names.  A folder with a zoo.cfg is a server of ZooKeeper, which is looked for in the folder that ZOOKEEPER_HOME names, and without that
among the jars of pyspark.

With a broker.xml instead of a folder it runs that broker alone, as it would run by itself; Ctrl-C is then no failure (`make run`).
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from importlib.util import find_spec
from pathlib import Path
from types import FrameType

ARTEMIS = "artemis"
ZOO_CFG = "zoo.cfg"
STOPPED = (0, -signal.SIGTERM, 128 + signal.SIGTERM)
"""Statuses of a broker that was stopped: both kinds end by the signal once everything is done, Java with a number for it."""


class SetupError(Exception):
    """A broker cannot be started; says what to do."""


def command(node: Path, data: Path) -> list[str]:
    """What runs the broker of the folder ``node`` with its data in ``data``.  Raises SetupError."""
    if (node / ZOO_CFG).exists():
        return zookeeper(node, data)
    if (node / "etc").is_dir():
        folders = [f"--{name}={data / name}" for name in ("journal", "bindings", "large-messages", "paging")]
        return [sys.executable, "-m", "mqbroker.cli.daemon", "--instance", str(node.absolute()), *folders]
    if node.name != ARTEMIS:
        return [sys.executable, "-m", "mqbroker.cli.daemon", "--config", str(node / "broker.xml"), "--data", str(data)]
    program = Path(os.environ.get("ARTEMIS_HOME", "")) / "bin" / "artemis"
    if "ARTEMIS_HOME" not in os.environ or not program.exists():
        raise SetupError("set ARTEMIS_HOME to the folder of an unpacked Apache ActiveMQ Artemis")
    instance = data / "instance"
    if not instance.exists():
        create = [str(program), "create", str(instance), "--silent", "--user=admin", "--password=admin", "--allow-anonymous"]
        subprocess.run([*create, "--no-autotune", "--no-web", "--nio"], check=True)
    shutil.copy(node / "broker.xml", instance / "etc" / "broker.xml")
    return [str(instance / "bin" / "artemis"), "run"]


def zookeeper(node: Path, data: Path) -> list[str]:
    """What runs the server of ZooKeeper in the folder ``node``, whose name ends with its number.  Raises SetupError."""
    home, spark = os.environ.get("ZOOKEEPER_HOME"), find_spec("pyspark")
    jars = Path(home) / "lib" if home else None if spark is None or spark.origin is None else Path(spark.origin).parent / "jars"
    if jars is None or not any(jars.glob("zookeeper-*.jar")):
        raise SetupError("set ZOOKEEPER_HOME to the folder of an unpacked Apache ZooKeeper, or install pyspark")
    (data / "myid").write_text(node.name[-1])
    return ["java", "-Xmx128m", "-cp", f"{jars}/*", "org.apache.zookeeper.server.quorum.QuorumPeerMain", str(node / ZOO_CFG)]


def make_locks(broker_xml: Path) -> None:
    """A lock manager on files expects that its folder is there."""
    for folder in re.findall(r'key="locks-folder" value="([^"]+)"', broker_xml.read_text()):
        Path(folder).mkdir(parents=True, exist_ok=True)


def show(name: str, process: subprocess.Popen[str]) -> None:
    """Print what a broker writes, with its name in front, and at last how it ended."""
    assert process.stdout is not None
    for line in process.stdout:
        print(f"{name} | {line}", end="", flush=True)
    status = process.wait()
    print(f"{name} | {'stopped' if status in STOPPED else f'ended with status {status}'}", flush=True)


def run_one(broker_xml: Path) -> int:
    """Run a broker with this output.  Returns its exit status, 0 when it was stopped in order."""
    # In a session of its own it gets Ctrl-C from here alone, and so ends in one way.
    process = subprocess.Popen([sys.executable, "-m", "mqbroker.cli.daemon", "--config", str(broker_xml)], start_new_session=True)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, frame: process.terminate())
    status = process.wait()
    return 0 if status in STOPPED else status


def main(arguments: list[str]) -> int:
    """Returns the exit status: 0 when every broker was stopped in order."""
    if len(arguments) != 1:
        print("usage: python config/run_cluster.py FOLDER|BROKER_XML", file=sys.stderr)
        return 2
    folder = Path(arguments[0])
    if folder.is_file():
        return run_one(folder)
    brokers = sorted([*folder.glob("*/broker.xml"), *folder.glob("*/etc/broker.xml")])
    nodes = [folder / path.relative_to(folder).parts[0] for path in (*sorted(folder.glob(f"*/{ZOO_CFG}")), *brokers)]
    if not brokers:
        print(f"{folder} has no folders with a broker.xml", file=sys.stderr)
        return 2
    processes: list[subprocess.Popen[str]] = []

    def stop(number: int, frame: FrameType | None) -> None:
        for process in processes:
            process.terminate()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)
    threads = []
    try:
        for path in brokers:
            make_locks(path)
        for node in nodes:
            data = Path("data", folder.resolve().name, node.name).absolute()
            data.mkdir(parents=True, exist_ok=True)
            # In a session of its own a broker gets Ctrl-C from here alone, once.
            process = subprocess.Popen(
                command(node, data), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
            )
            processes.append(process)
            threads.append(threading.Thread(target=show, args=(node.name, process)))
            threads[-1].start()
    except (SetupError, OSError, subprocess.CalledProcessError) as error:
        print(f"{error}", file=sys.stderr)
        stop(0, None)
        return 1
    finally:
        for thread in threads:
            thread.join()
    return 0 if all(process.returncode in STOPPED for process in processes) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
