"""The real Artemis broker and its command line, from the distribution on Maven Central."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import ClassVar

from tests.interop import instance
from tests.interop.maven import CACHE, locked, maven_artifact
from tests.interop.processes import ManagedProcess, free_port, wait_for_port

VERSION = "2.44.0"
START_SECONDS = 180.0  # on a busy machine
QUICK_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""A virtual machine that lives for minutes at most needs half of the processor so."""
QUICK_BROKER = f"-XX:-UseG1GC -XX:-UseStringDeduplication {QUICK_JAVA}"
"""Behind the arguments of a created broker, which ask for another collector."""


def distribution() -> Path:
    """Folder of the unpacked distribution; fetched through Maven and unpacked at the first call."""
    home = CACHE / f"apache-artemis-{VERSION}"
    if not (home / "bin" / "artemis").exists():
        archive = maven_artifact("org.apache.activemq", "apache-artemis", VERSION, "tar.gz", "bin")
        CACHE.mkdir(parents=True, exist_ok=True)
        subprocess.run(["tar", "-C", str(CACHE), "-xzf", str(archive)], check=True, timeout=120)
    return home


def artemis_command(*arguments: str) -> list[str]:
    """Command line of the distribution's own tool."""
    return [str(distribution() / "bin" / "artemis"), *arguments]


def tool_environment() -> dict[str, str]:
    """For a command of the distribution's own tool, which lives for a moment."""
    return os.environ | {"JAVA_ARGS": f"{QUICK_JAVA} -Xmx256m"}


def _create(folder: Path, port: int, *options: str) -> None:
    """The folder of a new broker, as the tool makes it."""
    acceptors = [f"--no-{protocol}-acceptor" for protocol in ("amqp", "hornetq", "mqtt", "stomp")]
    command = artemis_command(
        *("create", "--silent", "--require-login", "--user", instance.USER, "--password", instance.PASSWORD, "--no-web"),
        *("--host", "127.0.0.1", "--default-port", str(port), *acceptors, *options, str(folder)),
    )
    subprocess.run(command, check=True, timeout=120, capture_output=True)


def _copy_instance(folder: Path) -> None:
    """The folder of a new broker, copied from one that the tool made once: it needs seconds for each."""
    pattern = CACHE / f"instance-{VERSION}"
    with locked("instance"):
        if not pattern.exists():
            making = CACHE / f"instance-{VERSION}-new"
            shutil.rmtree(making, ignore_errors=True)
            _create(making, 61616, "--no-autotune", "--nio")
            making.rename(pattern)
    shutil.copytree(pattern, folder, dirs_exist_ok=True)
    for path in (*(folder / "etc").iterdir(), folder / "bin" / "artemis"):
        path.write_text(path.read_text().replace(f"{pattern}-new", str(folder)))


class ArtemisBroker:
    """A broker of the real distribution on a free loopback port, in `folder`; data stay there between start and stop."""

    name: ClassVar[str] = "artemis"

    def __init__(
        self,
        folder: Path,
        additions: instance.Additions = instance.NOTHING,
        port: int | None = None,
        *,
        as_created: bool = False,
        broker_xml: str | None = None,
    ) -> None:
        """`as_created` keeps the broker.xml that `artemis create` makes (tuned to the disk) and its virtual machine, instead of the
        suite's own; `broker_xml` is the text of another one for that virtual machine."""
        self.folder = folder
        self.tls_port = additions.tls_port
        self._port = free_port() if port is None else port
        self._process: ManagedProcess | None = None
        self._environment = {} if as_created or broker_xml is not None else {"JAVA_ARGS_APPEND": QUICK_BROKER}
        if as_created:
            _create(folder, self._port)
        else:
            _copy_instance(folder)
            if broker_xml is not None:
                (folder / "etc" / "broker.xml").write_text(broker_xml)
                return
            instance.write_settings(folder, self._port, additions)

    @property
    def url(self) -> str:
        return f"tcp://127.0.0.1:{self._port}"

    @property
    def port(self) -> int:
        return self._port

    @property
    def pid(self) -> int:
        assert self._process is not None, "the broker does not run"
        return self._process.pid

    @property
    def running(self) -> ManagedProcess | None:
        """The process; None while the broker does not run."""
        return self._process

    @property
    def process(self) -> ManagedProcess:
        assert self._process is not None, "the broker does not run"
        return self._process

    def start(self) -> None:
        self.launch()
        wait_for_port(self._port, START_SECONDS, self.process)

    def launch(self) -> None:
        """Start it without waiting: a backup accepts no connections."""
        # the start script replaces itself by the Java process, so its process id is the broker's
        self._process = ManagedProcess([str(self.folder / "bin" / "artemis"), "run"], self.folder, self._environment)

    def stop(self) -> None:
        if self._process is not None:
            self._process.stop()
            self._process = None

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process = None
