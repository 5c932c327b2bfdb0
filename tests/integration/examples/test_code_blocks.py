"""Every code block of README and docs does what its page says, as it stands; only folders, ports and passwords are those of the test."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import trustme
from twisted.trial.unittest import SynchronousTestCase

from mqclient.sockets import SocketRuntime, server_locator
from tests.integration.brokers import broker_url, environment
from tests.integration.cluster.nodes import ReservedPort
from tests.integration.examples.code_blocks import AROUND, NOT_RUN, PAGES, Block, blocks_of, page_name
from tests.unit.cli.runner import mqbroker
from tests.unit.docs.pages import ROOT

SECONDS = 60  # for a busy machine; each block takes about one
ADDRESS = re.compile(r"\b(localhost|127\.0\.0\.1):61616\b")
SERVES = re.compile(r"(bin/mqbroker run|twistd .*mqbroker .*)$")
NEEDS_NO_BROKER = re.compile(r"mqbroker (create|check config|data (exp|print|recover))\b")
ENDLESS = re.compile(r" --watch\b")
LOGIN = "--user admin --password secret"
EXAMPLES_SHOWN = {"README.md": "first_message", "client-guide.md": "first_message", "asyncio.md": "asyncio_worker"}


class Instance:
    """The folder that stands for ``/var/lib``, with an instance in it, and a broker on it while one is needed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.reserved = ReservedPort()  # also between two brokers
        self.port = self.reserved.number
        self.instance = folder / "mybroker"
        self._broker: subprocess.Popen[bytes] | None = None
        self._log = folder / "broker.log"
        self.environment = environment()
        self.environment["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), self.environment["PATH"]])
        # Where a command names no broker, it is the one of the test.
        self.environment["MQBROKER_INSTANCE"] = str(self.instance)

    def translated(self, line: str) -> str:
        line = re.sub(r"\s+#.*", "", line).replace("/var/lib", str(self.folder)).replace(".venv/bin/", "")
        return ADDRESS.sub(f"127.0.0.1:{self.port}", line)

    def run(self, line: str) -> None:
        """Run a line of a page as a shell does, with a broker where it needs one.  Raises AssertionError when it fails."""
        command = self.translated(line)
        if SERVES.search(command):
            self.serve(command)
            return
        if NEEDS_NO_BROKER.search(command):
            self.stop()
        elif "mqbroker-service start" in command:
            self.stop()
            command = f"{command} && {command.removesuffix(' start')} stop"
        elif self._broker is None:
            self.serve(f"{self.instance}/bin/mqbroker run")
        words = shlex.split(command)
        if words[0] == "mqbroker" and not ENDLESS.search(command):
            # In this process: most of the time of a short command is its start.
            with contextlib.chdir(self.folder):
                found = mqbroker(*words[1:], MQBROKER_INSTANCE=str(self.instance))
            assert found.status == 0, f"{command}: {found}"
        else:
            self._shell(command)
        if "mqbroker create" in command:
            self._move_port()

    def _shell(self, command: str) -> None:
        endless = ENDLESS.search(command)
        done = subprocess.run(
            ["bash", "-c", f"timeout --signal=INT 2 {command}" if endless else command],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        assert done.returncode == (124 if endless else 0), f"{command}: {done.returncode}: {done.stdout}{done.stderr}"

    def _move_port(self) -> None:
        file = self.instance / "etc" / "broker.xml"
        file.write_text(file.read_text().replace(":61616", f":{self.port}"))

    def serve(self, command: str) -> None:
        """Have a broker run, until :meth:`stop`.  Raises AssertionError when it is not active in time."""
        self.stop()
        with self._log.open("wb") as output:
            self._broker = subprocess.Popen(
                ["bash", "-c", f"exec {command}"], cwd=self.folder, env=self.environment, stdout=output, stderr=subprocess.STDOUT
            )
        deadline = time.monotonic() + SECONDS
        while "AMQ221007" not in self._log.read_text("utf-8", "replace"):
            assert self._broker.poll() is None and time.monotonic() < deadline, self._log.read_text("utf-8", "replace")
            time.sleep(0.05)

    def stop(self) -> None:
        broker, self._broker = self._broker, None
        if broker is not None:
            broker.send_signal(signal.SIGTERM)
            try:
                broker.wait(SECONDS)
            finally:
                broker.kill()


class CodeBlockTests(SynchronousTestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory(prefix="mqbroker-test-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def blocks(self, *languages: str) -> list[Block]:
        return [block for path in PAGES for block in blocks_of(path) if block.language in languages and not block.left_out]

    def test_the_tables_name_blocks_that_there_are(self) -> None:
        there = {(block.page, block.first_line) for path in PAGES for block in blocks_of(path)}
        named = [(page, first_line) for table in (NOT_RUN, AROUND) for page, lines in table.items() for first_line in lines]
        self.assertEqual([key for key in named if key not in there], [])

    def test_what_is_said_to_run_the_others_is_there(self) -> None:
        named = {name for lines in NOT_RUN.values() for reason in lines.values() for name in re.findall(r"tests/[\w/.]*\w", reason)}
        self.assertEqual([name for name in sorted(named) if not (ROOT / name).exists()], [])

    def test_each_block_is_of_a_language_that_is_run(self) -> None:
        blocks = [block for path in PAGES for block in blocks_of(path) if not block.left_out]
        self.assertEqual({block.language for block in blocks}, {"python", "console", "xml"})

    def test_programs(self) -> None:
        shutil.copy(ROOT / "examples" / "jndi.properties", self.folder)
        address = broker_url().removeprefix("tcp://")
        for block in self.blocks("python"):
            if (shown := EXAMPLES_SHOWN.get(block.page)) and block.text.strip() in (ROOT / "examples" / f"{shown}.py").read_text():
                continue  # test_examples.py runs it
            program = self.folder / "program.py"
            program.write_text(ADDRESS.sub(address, block.whole))
            done = subprocess.run(
                [sys.executable, "-W", "error", str(program)],
                cwd=self.folder,
                env=environment(),
                capture_output=True,
                text=True,
                timeout=SECONDS,
                check=False,
            )
            self.assertEqual((done.returncode, done.stderr), (0, ""), f"{block.page}: {block.text}{done.stderr}")

    def test_configurations(self) -> None:
        (self.folder / "acme").mkdir()
        (transformer,) = (block.text for block in self.blocks("python") if block.page == "core-bridges.md")
        (self.folder / "acme" / "bridges.py").write_text(transformer)
        sys.path.insert(0, str(self.folder))
        self.addCleanup(sys.path.remove, str(self.folder))
        (self.folder / "etc").mkdir()
        trustme.CA().issue_cert("localhost").private_key_and_cert_chain_pem.write_to_path(str(self.folder / "etc" / "server.pem"))
        instance = Instance(self.folder)
        self.addCleanup(instance.reserved.close)
        instance.run(f"mqbroker create /var/lib/mybroker {LOGIN} --require-login --host 127.0.0.1")
        for block in self.blocks("xml"):
            text = block.whole.replace("ENC(…)", "secret").replace("/var/lib", str(self.folder))
            if "<broker " in text:
                (instance.instance / "etc" / "bootstrap.xml").write_text(text)
                instance.run("mqbroker check config --instance /var/lib/mybroker")
            else:
                (self.folder / "checked.xml").write_text(text)
                instance.run("mqbroker check config checked.xml")

    def test_commands(self) -> None:
        for path in PAGES:
            commands = [block for block in blocks_of(path) if block.language == "console" and not block.left_out]
            if commands:
                self.follow(page_name(path), commands)

    def follow(self, page: str, commands: list[Block]) -> None:
        """Run the commands of one page in their order; a block that makes an instance begins anew."""
        instance = None
        for number, block in enumerate(commands):
            if instance is None or "mqbroker create" in block.text:
                folder = self.folder / f"{page.replace('/', '-')}-{number}"
                folder.mkdir()
                instance = Instance(folder)
                self.addCleanup(instance.reserved.close)
                self.addCleanup(instance.stop)
                if "mqbroker create" not in block.text:
                    self.prepare(instance)
            for line in re.findall(r"^\$ (.*)$", block.text, re.M):
                instance.run(line)
            if block is commands[-1] or "mqbroker create" in commands[number + 1].text:
                instance.stop()

    def prepare(self, instance: Instance) -> None:
        """What pages take for granted: an instance, a broker.xml with users beside it, a first message, a queue with a reader."""
        instance.run(f"mqbroker create /var/lib/mybroker {LOGIN} --allow-anonymous --host 127.0.0.1")
        shutil.copytree(instance.instance / "etc", instance.folder, dirs_exist_ok=True)
        for queue in ("first", "orders"):
            instance.run(f"mqbroker producer --destination queue://{queue} --message-count 1 {LOGIN}")
        with SocketRuntime() as runtime:
            locator = server_locator(f"tcp://127.0.0.1:{instance.port}", runtime=runtime)
            factory = runtime.run(locator.create_session_factory(), SECONDS)
            session = runtime.run(factory.create_session("admin", "secret"), SECONDS)
            runtime.run(session.readers.open("orders", "spark-orders"), SECONDS)
            runtime.run(locator.close(), SECONDS)
