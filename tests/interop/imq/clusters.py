"""Clusters of Open Message Queue itself, and of home brokers.  Both are used with the same words."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from tests.integration.brokers import Broker
from tests.interop.imq.models import MakeModel, with_master
from tests.interop.maven import CACHE, built, locked, maven_artifact, postgresql_driver
from tests.interop.processes import ManagedProcess
from tests.unit.cli.runner import mqbroker

VERSION = "6.5.1"
DIGEST = "ad040a8b84e694e0ddabd12b9698ea0e5807be16c74a0c99143aa3f16678f446"
"""SHA-256 of the distribution."""
BROKER_CLASS = "com.sun.messaging.jmq.jmsserver.Broker"
QUICK_JAVA = ("-Xms96m", "-Xmx192m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
AS_SHIPPED = ("-Xms192m", "-Xmx192m", "-Xss256k")
"""What imqbrokerd gives its virtual machine."""
START_SECONDS = 120.0
COMMAND_SECONDS = 120.0
USER = PASSWORD = "admin"
CLIENT = "guest"
"""User and password of clients that are no administrators."""
Process = Broker | ManagedProcess
COUNT = 3
FOLLOWING = "ha=true&reconnectAttempts=-1&retryInterval=100&maxRetryInterval=200&useTopologyForLoadBalancing=false&blockOnAcknowledge=true"
_BROKER_ROW = re.compile(r"^(?:\S+ +)?(\S+:\d+) +([A-Z_]+)(?: |$)", re.MULTILINE)
_MEMBER_ROW = re.compile(r"^(\S+) +\S+:\d+ +([A-Z_]+) +(?:(\d+) +)?(?:([^\s\d]\S*) +)?\d+ \w+", re.MULTILINE)
_DESTINATION_ROW = re.compile(r"^(\S+) +(Queue|Topic)(?: \(temporary\))? +(\w+) +", re.MULTILINE)


@dataclass(frozen=True)
class Member:
    """A broker of an enhanced cluster: its state, the messages that it has, and the id of the broker that has taken it over, or empty."""

    state: str
    messages: int
    taker: str


@dataclass(frozen=True)
class Answer:
    """What a command of an administrator said, and its exit status."""

    status: int
    text: str

    @property
    def brokers(self) -> dict[str, str]:
        """State by place, of ``list bkr``."""
        return dict(_BROKER_ROW.findall(self.text))

    @property
    def members(self) -> dict[str, Member]:
        """Rows by broker id, of ``list bkr`` in an enhanced cluster."""
        return {name: Member(state, int(kept or 0), taker) for name, state, kept, taker in _MEMBER_ROW.findall(self.text)}

    @property
    def destinations(self) -> list[str]:
        """Names, of ``list dst``."""
        return [name for name, _, _ in _DESTINATION_ROW.findall(self.text)]

    @property
    def values(self) -> dict[str, str]:
        """Value by title, of ``query``."""
        return {title: value for title, value in (_title_and_value(line) for line in self.text.splitlines()) if title}


def _title_and_value(line: str) -> tuple[str, str]:
    found = re.match(r"^ *(\S+(?: \S+)*)(?:  +(.*))?$", line)
    return (found[1], (found[2] or "").strip()) if found else ("", "")


class Cluster:
    """Brokers at these places (host:port), of the kind that ``make_model`` gives; what they share is in one file.

    The broker of a number has the name, and in an enhanced cluster the id, ``b`` and the number.
    """

    name: ClassVar[str]

    def __init__(self, folder: Path, places: Sequence[str], make_model: MakeModel = with_master) -> None:
        self.folder = folder
        self.places = list(places)
        self.model = make_model(places)
        self._processes: dict[int, Process] = {}
        folder.mkdir(parents=True)
        self.central = folder / "cluster.properties"
        self.central.write_text(self.model.shared)
        self.passfile = folder / "passfile"
        self.passfile.write_text(f"imq.imqcmd.password={PASSWORD}\n")
        self.passfile.chmod(0o600)

    def launch(self, number: int) -> None:
        """Start a broker without waiting for its cluster."""
        self._processes[number] = self._start(number)

    def kill(self, number: int) -> None:
        self._processes.pop(number).kill()

    def wait_for_end(self, number: int) -> None:
        """Wait until the process of a broker that was shut down has ended."""
        self.until(self._processes[number].has_ended, f"the process of broker {number} ends", START_SECONDS)
        self.kill(number)

    def pid(self, number: int) -> int:
        """The process of a broker that runs."""
        return self._processes[number].pid

    def mend(self) -> None:
        """Start what does not run, and wait until all are linked."""
        for number in range(len(self.places)):
            self.until(lambda n=number: self._all_operate_for(n), f"all are linked with {self.places[number]}", START_SECONDS)  # type: ignore[misc]

    def _all_operate_for(self, number: int) -> bool:
        """A broker may end while this is waited for: that of Open Message Queue leaves it to its start script to come back."""
        for each in range(len(self.places)):
            if each not in self._processes or self._processes[each].has_ended():
                self.launch(each)
        return list(self.command(number, "list", "bkr").brokers.values()) == ["OPERATING"] * len(self.places)

    def close(self) -> None:
        for number in sorted(self._processes):
            self.kill(number)

    @staticmethod
    def until(condition: Callable[[], object], what: str, seconds: float = 40.0) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > deadline:
                raise AssertionError(f"in {seconds:g} s it did not come to this: {what}")
            time.sleep(0.2)

    def url(self, number: int) -> str:
        """For clients that stay with this broker."""
        raise NotImplementedError

    def confirming_url(self, number: int) -> str:
        """As :meth:`url`; the broker confirms acknowledgements, as that of Open Message Queue always does."""
        return self.url(number)

    def following_url(self, number: int) -> str:
        """For clients that go on at another broker."""
        raise NotImplementedError

    def command(self, number: int, *words: str) -> Answer:
        """A command of imqcmd at this broker."""
        raise NotImplementedError

    def database(self, number: int, *words: str) -> Answer:
        """A command of imqdbmgr with the properties of this broker."""
        raise NotImplementedError

    def _start(self, number: int) -> Process:
        raise NotImplementedError

    def _options(self, number: int) -> list[str]:
        """Those of imqbrokerd."""
        host, _, port = self.places[number].rpartition(":")
        return ["-name", f"b{number}", "-port", port, f"-Dimq.hostname={host}", *self._properties(number)]

    def _properties(self, number: int) -> list[str]:
        """What imqdbmgr needs, too."""
        options = ["-varhome", str(self.folder / "var"), f"-Dimq.cluster.url=file:{self.central}"]
        return [*options, f"-Dimq.brokerid=b{number}"] if self.model.enhanced else options

    def _command_options(self, number: int) -> list[str]:
        """Those of imqcmd."""
        return ["-b", self.places[number], "-u", USER, "-passfile", str(self.passfile), "-f"]


class HomeBrokers(Cluster):
    """Brokers of ours, instances that ``mqbroker imq brokerd`` makes."""

    name = "mqbroker"

    def _start(self, number: int) -> Process:
        folder = self.folder / f"log{number}"
        folder.mkdir(exist_ok=True)
        return Broker([sys.executable, "-m", "mqbroker.cli", "imq", "brokerd", *self._options(number)], folder)

    def written(self, number: int) -> str:
        """The log of a broker since its start."""
        return (self.folder / f"log{number}" / "output.log").read_text("utf-8", "replace")

    def url(self, number: int) -> str:
        return f"tcp://{self.places[number]}?reconnectAttempts=0&useTopologyForLoadBalancing=false"

    def confirming_url(self, number: int) -> str:
        return f"{self.url(number)}&blockOnAcknowledge=true"

    def following_url(self, number: int) -> str:
        return f"tcp://{self.places[number]}?{FOLLOWING}"

    def command(self, number: int, *words: str) -> Answer:
        return self._said(*words, *self._command_options(number))

    def database(self, number: int, *words: str) -> Answer:
        unasked = ["-f"] if words[0] == "remove" else []  # that of Open Message Queue does not ask
        return self._said("dbmgr", *words, *unasked, *self._properties(number))

    @staticmethod
    def _said(*words: str) -> Answer:
        done = mqbroker("imq", *words)
        return Answer(done.status, done.out + done.err)


class RealBrokers(Cluster):
    """Brokers of the distribution, with these ``properties`` (name=value) above those of its files."""

    name = "OpenMQ"

    def __init__(
        self,
        folder: Path,
        places: Sequence[str],
        make_model: MakeModel = with_master,
        java: Sequence[str] = QUICK_JAVA,
        properties: Sequence[str] = (),
    ) -> None:
        super().__init__(folder, places, make_model)
        self._java = java
        self._further = [f"-D{each}" for each in properties]
        self._home = distribution()
        (folder / "var" / "instances").mkdir(parents=True)
        if self.model.enhanced:
            # Its brokers make these tables by themselves only with a further property.
            made = self.database(0, "create", "tbl")
            assert made.status == 0, made.text

    def _start(self, number: int) -> Process:
        # The start script keeps a shell in front of the virtual machine, and a kill would reach only that.
        library = self._home / "lib"
        homes = {"home": self._home, "varhome": self.folder / "var", "etchome": self._home / "etc", "libhome": library}
        classpath = ":".join(str(library / each) for each in ("imqbroker.jar", "imqutil.jar", "ext/*"))
        command = ["java", *self._java, "-cp", classpath, *(f"-Dimq.{name}={path}" for name, path in homes.items())]
        return ManagedProcess([*command, BROKER_CLASS, *self._options(number), *self._further, "-tty"], self.folder)

    def url(self, number: int) -> str:
        return f"mq://{self.places[number]}"

    def following_url(self, number: int) -> str:
        others = [*self.places[number:], *self.places[:number]]
        listed = ",".join(f"mq://{place}" for place in others)
        return f"{listed}?imqReconnectEnabled=true&imqReconnectAttempts=1&imqAddressListIterations=-1"

    def command(self, number: int, *words: str) -> Answer:
        return self._said("imqcmd", *words, *self._command_options(number))

    def database(self, number: int, *words: str) -> Answer:
        return self._said("imqdbmgr", *words, *self._properties(number))

    def _said(self, program: str, *words: str) -> Answer:
        command = [str(self._home / "bin" / program), *words]
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=COMMAND_SECONDS, check=False, env=java_home(), stdin=subprocess.DEVNULL
        )
        lines = (line for line in (done.stdout + done.stderr).splitlines() if not line.startswith("Warning [A2016]"))
        return Answer(done.returncode, "\n".join(lines).lstrip("\n"))


def distribution() -> Path:
    """Folder of the unpacked distribution; fetched through Maven with a driver, compared with its digest and unpacked at the first call."""
    home = CACHE / f"openmq-{VERSION}-postgresql"
    with locked("openmq"):
        if not home.exists():
            archive = maven_artifact("org.glassfish.mq", "mq-distribution", VERSION, "zip")
            found = hashlib.sha256(archive.read_bytes()).hexdigest()
            if found != DIGEST:
                raise ValueError(f"{archive} has the SHA-256 digest {found}, expected {DIGEST}")
            making = CACHE / f"openmq-{VERSION}-new"
            shutil.rmtree(making, ignore_errors=True)
            shutil.unpack_archive(archive, making)
            for script in (making / "mq" / "bin").iterdir():
                script.chmod(0o755)
            shutil.copy(postgresql_driver(), making / "mq" / "lib" / "ext")
            (making / "mq").rename(home)
    return home


def java_home() -> dict[str, str]:
    """The environment for its commands."""
    java = shutil.which("java")
    assert java is not None
    return os.environ | {"IMQ_JAVAHOME": str(Path(java).resolve().parents[1])}


def client_libraries() -> str:
    """Class path of the client library of the distribution."""
    library = distribution() / "lib"
    return f"{library / 'imq.jar'}:{library / 'jms.jar'}"


def client_classpath() -> str:
    """Class path of our Java program with that library."""
    return f"{built('java') / 'jakarta-2.44.0' / 'target' / 'classes'}:{client_libraries()}"
