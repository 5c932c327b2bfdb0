"""Who may import whom, and who may touch the outside world (docs/architecture: "Layers")."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

ROOT = Path(__file__).resolve().parents[2]
BROKER = ROOT / "src" / "mqbroker"
CLIENT = ROOT / "clients" / "mqclient" / "src" / "mqclient"
DATA_SOURCES = ROOT / "clients" / "mqspark" / "src"

BROKER_LAYERS = {"config": 0, "messaging": 1, "storage": 2, "server": 3, "cluster": 4, "ha": 5, "imq": 6}
TOP = 7
"""Everything else in the broker: app, cli, embedded, tap and what they need to reach the outside world."""
CLIENT_LAYERS = {
    "": 0,
    "text": 0,
    "errors": 0,
    "urls": 0,
    "openmq": 0,
    "wire": 1,
    "storageformat": 1,
    "xa": 1,
    "protocol": 2,
    "core": 3,
    "jms": 5,
    "jndi": 6,
}
SHELLS = 4
"""Every other module of the client: what touches reactors, loops, threads and sockets."""

ASSEMBLY = BROKER / "node"
ASSEMBLED = ("Messaging", "MessagingCore", "Server")
"""The parts of a broker that only its assembly makes, for tests and benches, too."""
CORE_MAKER = "src/mqbroker/messaging/messaging.py"
"""Messaging makes its own core."""

OUTSIDE_WORLD = {"time", "random", "socket", "threading", "select", "ssl"}
PURE_TIME = {"struct_time"}


def modules(folder: Path) -> Iterator[tuple[str, Path]]:
    """Name inside the package (``server.session``) and file of every module."""
    for path in sorted(folder.rglob("*.py")):
        parts = path.relative_to(folder).with_suffix("").parts
        if ".cache" in parts:
            continue  # downloads of the interop suite
        yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts), path


def imports(path: Path) -> Iterator[tuple[int, str]]:
    """Line and dotted name of everything that a module imports while it runs, also inside functions; not what only types need."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for_types = {id(inner) for node in ast.walk(tree) if _is_type_checking(node) for inner in ast.walk(node)}
    for node in ast.walk(tree):
        if id(node) in for_types:
            continue
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            for alias in node.names:
                yield node.lineno, f"{node.module}.{alias.name}"


def _is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def broker_layer(name: str) -> int:
    return BROKER_LAYERS.get(name.split(".")[0], TOP)


def client_layer(name: str) -> int:
    return CLIENT_LAYERS.get(name.split(".")[0], SHELLS)


def outside(path: Path) -> Iterator[str]:
    """What a module takes from the outside world by itself."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for line, name in imports(path):
        first = name.split(".")[0]
        if first in OUTSIDE_WORLD and name.rpartition(".")[2] not in PURE_TIME:
            yield f"{line}: imports {name}"
        if name in ("twisted.internet.reactor", "uuid.uuid4", "uuid.uuid1", "os.urandom"):
            yield f"{line}: imports {name}"
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "open":
            yield f"{node.lineno}: calls open()"
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            name = f"{node.value.id}.{node.attr}"
            if name in ("uuid.uuid4", "uuid.uuid1", "os.urandom", "os.open"):
                yield f"{node.lineno}: uses {name}"


def made_parts(path: Path) -> Iterator[str]:
    """Where a module makes one of :data:`ASSEMBLED`, under whatever name it has imported it."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    names = {name: name for name in ASSEMBLED}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            names |= {alias.asname: alias.name for alias in node.names if alias.asname is not None and alias.name in ASSEMBLED}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", None)
            if called in names:
                yield f"{node.lineno}: makes a {names[called]}"


class LayerTests(SynchronousTestCase):
    def test_lower_never_imports_higher_in_the_broker(self) -> None:
        wrong = [
            f"mqbroker/{path.relative_to(BROKER)}:{line}: imports {name}"
            for module, path in modules(BROKER)
            for line, name in imports(path)
            if name.startswith("mqbroker.") and broker_layer(module) < broker_layer(name.removeprefix("mqbroker."))
        ]
        self.assertEqual(wrong, [])

    def test_lower_never_imports_higher_in_the_client(self) -> None:
        wrong = [
            f"mqclient/{path.relative_to(CLIENT)}:{line}: imports {name}"
            for module, path in modules(CLIENT)
            for line, name in imports(path)
            if name.startswith("mqclient.") and client_layer(module) < client_layer(name.removeprefix("mqclient."))
        ]
        self.assertEqual(wrong, [])

    def test_the_client_imports_nothing_of_ours(self) -> None:
        wrong = [
            f"mqclient/{path.relative_to(CLIENT)}:{line}: imports {name}"
            for _, path in modules(CLIENT)
            for line, name in imports(path)
            if name.split(".")[0] in ("mqbroker", "mqspark")
        ]
        self.assertEqual(wrong, [])

    def test_the_data_sources_never_import_the_broker_and_the_broker_never_them(self) -> None:
        folders = ((DATA_SOURCES, "mqbroker"), (BROKER, "mqspark"), (BROKER, "pyspark"))
        wrong = [
            f"{path.relative_to(ROOT)}:{line}: imports {name}"
            for folder, forbidden in folders
            for _, path in modules(folder)
            for line, name in imports(path)
            if name.split(".")[0] == forbidden
        ]
        self.assertEqual(wrong, [])

    def test_messaging_knows_no_twisted(self) -> None:
        wrong = [
            f"mqbroker/{path.relative_to(BROKER)}:{line}: imports {name}"
            for module, path in modules(BROKER)
            if module.split(".")[0] == "messaging"
            for line, name in imports(path)
            if name.split(".")[0] in ("twisted", "automat", "zope")
        ]
        self.assertEqual(wrong, [])

    def test_sans_io_modules_of_the_client_know_no_framework(self) -> None:
        wrong = [
            f"mqclient/{path.relative_to(CLIENT)}:{line}: imports {name}"
            for module, path in modules(CLIENT)
            if client_layer(module) <= 2
            for line, name in imports(path)
            if name.split(".")[0] in ("twisted", "asyncio", "txaio")
        ]
        self.assertEqual(wrong, [])

    def test_everything_that_varies_is_passed_in(self) -> None:
        """Clocks, entropy, network, threads and files come as arguments, so that a simulation can stand in for them."""
        wrong = [
            f"mqbroker/{path.relative_to(BROKER)}:{found}"
            for module, path in modules(BROKER)
            if broker_layer(module) < TOP
            for found in outside(path)
        ]
        wrong += [
            f"mqclient/{path.relative_to(CLIENT)}:{found}"
            for module, path in modules(CLIENT)
            if client_layer(module) <= 3
            for found in outside(path)
        ]
        self.assertEqual(wrong, [])

    def test_the_assembly_alone_puts_a_broker_on_a_store(self) -> None:
        own = f"{CORE_MAKER}:"
        wrong = [
            f"{path.relative_to(ROOT)}:{found}"
            for folder in (BROKER, ROOT / "tests")
            for _, path in modules(folder)
            if ASSEMBLY not in path.parents
            for found in made_parts(path)
        ]
        self.assertEqual([each for each in wrong if not (each.startswith(own) and each.endswith("a MessagingCore"))], [])

    def test_a_broker_that_is_put_on_a_store_elsewhere_is_noticed(self) -> None:
        bad = Path(self.mktemp())
        bad.write_text("from m import Messaging as Core\nCore(1)\nserver.Server()\nMessagingCore\nserve(MessagingCore())\n")
        self.assertEqual(list(made_parts(bad)), ["2: makes a Messaging", "3: makes a Server", "5: makes a MessagingCore"])

    def test_the_check_notices_a_breach(self) -> None:
        folder = Path(self.mktemp())
        folder.mkdir()
        bad = folder / "bad.py"
        bad.write_text("import time\nimport uuid\nuuid.uuid4()\nopen('x')\nif TYPE_CHECKING:\n    import socket\n")
        self.assertEqual(sorted(outside(bad)), ["1: imports time", "3: uses uuid.uuid4", "4: calls open()"])


class StartUpTests(SynchronousTestCase):
    def loaded_by(self, statement: str) -> set[str]:
        paths = [str(ROOT / path) for path in ("src", "clients/mqclient/src", "plugins")]
        command = [sys.executable, "-c", f"{statement}\nimport sys; print(*sys.modules)"]
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths)}
        done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=60, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return {part for name in done.stdout.split() for part in (name, name.split(".")[0])}

    def test_the_broker_imports_no_command_line_and_no_specification(self) -> None:
        loaded = self.loaded_by("import mqbroker.tap, mqbroker.app, mqbroker.cli, mqbroker.cli.daemon")
        self.assertEqual(loaded & {"click", "rich", "construct", "pyspark", "prompt_toolkit"}, set())

    def test_the_broker_imports_what_few_brokers_need_when_they_need_it(self) -> None:
        """Filters, management, metrics over HTTP, TLS stores, properties that override broker.xml, other brokers, the client."""
        start = "from mqbroker.tap import BrokerService\nimport mqbroker.settings, mqbroker.config.parse, mqbroker.cli.daemon"
        config = ROOT / "config" / "standalone" / "broker.xml"
        start += f"\nmqbroker.config.parse.load_configuration({str(config)!r}, lambda path: open(path, 'rb').read(), {{}})"
        late = {
            "mqbroker.availability",
            "mqbroker.cluster",
            "mqbroker.config.broker_xml.cluster_assembly",
            "mqbroker.config.broker_xml.older_forms",
            "mqbroker.config.overrides.overrides",
            "mqbroker.ha",
            "mqbroker.messaging.filters.compile",
            "mqbroker.messaging.filters.parser",
            "mqbroker.server.observation.figures",
            "mqbroker.server.observation.health",
            "mqbroker.server.management.address_control",
            "mqbroker.server.management.broker_control",
            "mqbroker.server.management.queue_control",
            "mqbroker.server.management.service",
            "mqbroker.server.observation.metrics",
            "mqbroker.storage.memorystore",
            "cryptography.hazmat.primitives.serialization.pkcs12",
            "mqclient.core.api",
            "mqclient.invm",
            "mqclient.jms",
            "mqclient.wire.packets.grammar",
            "sqlite3",
            "twisted.web",
            "xml.etree.ElementTree",
        }
        self.assertEqual(self.loaded_by(start) & late, set())

    def test_a_broker_without_tls_imports_no_openssl_and_can_do_so_later(self) -> None:
        imports = (
            "mqbroker.config.model.configuration import Configuration",
            "mqbroker.tap import import_reactor",
            "mqclient.urls import *",
        )
        start = "\n".join(f"from {each}" for each in imports)
        plain = f"{start}\nimport_reactor(Configuration())"
        loaded = self.loaded_by(plain)
        self.assertEqual(loaded & {"OpenSSL", "cryptography", "twisted.internet.reactor"}, {"twisted.internet.reactor"})
        self.assertIn("OpenSSL", self.loaded_by(f"{plain}\nimport twisted.protocols.tls, twisted.internet.ssl, mqclient.twisted"))
        secure = "TransportUri('tcp', 'localhost', 0, {'sslEnabled': 'true'})"
        for uris in (f"acceptors=[{secure}]", f"connectors={{'a': {secure}}}"):
            self.assertIn("OpenSSL", self.loaded_by(f"{start}\nimport_reactor(Configuration({uris}))"))

    def test_the_list_of_commands_imports_no_client(self) -> None:
        loaded = self.loaded_by("from mqbroker.cli.root import invoke\ninvoke(['--help'])")
        self.assertEqual(loaded & {"twisted", "rich", "lxml"}, set())
