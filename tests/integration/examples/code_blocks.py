"""The code blocks of README and docs: which there are, what stands around those that are no whole program, and which are not run here."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent

from tests.unit.docs.pages import FENCED, ROOT

PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "clients").glob("*/README.md")))
THE_TESTS = "is a run of the tests"
INSTALLS = "installs: tests/packaging/test_distributions.py does it with the wheels"
JAVA_PAGE = "needs Java and Maven: tests/interop/test_java_page.py"
HOME_BROKERS = "needs home brokers: tests/integration/imq/test_commands.py"
SPARK_PAGES = "needs Spark: tests/spark/test_pages.py"
SPARK_JOBS = "needs Spark: tests/spark/test_jobs.py"

NOT_RUN: dict[str, dict[str, str]] = {
    "clients/mqclient/README.md": {"$ pip install ./clients/mqclient": INSTALLS},
    "clients/mqspark/README.md": {
        "$ pip install ./clients/mqclient ./clients/mqspark": INSTALLS,
        'orders = spark.readStream.format("mqbroker").option("url", "tcp://localhost:61616").option("queue", "orders").load()': SPARK_PAGES,
    },
    "README.md": {
        "$ make run": "needs port 61616 and installs: tests/packaging/test_readme.py looks for the targets",
        "$ make run CONFIG=config/cluster-symmetric": "three brokers: test_sample_clusters.py, and tests/integration/cli/demo/test_demo.py",
        "$ make spark-example": "needs Spark: tests/spark/test_example.py",
        "$ python3 -m venv .venv && . .venv/bin/activate": INSTALLS,
    },
    "compatibility.md": {"pytest tests/interop": THE_TESTS},
    "contributing.md": {
        "$ make test": THE_TESTS,
        "PYTHONPATH=src:clients/mqclient/src:clients/mqspark/src:plugins python -m pytest tests/unit/messaging": THE_TESTS,
    },
    "database.md": {
        "$ mqbroker data exp --jdbc-connection-url 'jdbc:postgresql://db.example/mq?user=mq&password=secret' --output exp.xml": (
            "needs that server: tests/integration/cli/data/test_round_trip.py"
        ),
        "imq.persist.store=jdbc": "a file of properties: tests/unit/config/imq/test_databases.py",
    },
    "getting-started.md": {
        "$ python3 -m venv .venv": INSTALLS,
        "$ /var/lib/old/bin/artemis data exp --output exp.xml": "needs an Artemis: tests/interop/test_export_and_import.py",
    },
    "ha.md": {
        "$ mqbroker check ha --instance /var/lib/mybroker": "needs an instance of a pair: tests/unit/cli/check/test_check_ha.py",
        "$ mqbroker data merge --instance /var/lib/mybroker --url tcp://other:61616 --user admin --password secret": "needs a split: "
        "tests/integration/cli/data/merge/test_merge.py",
    },
    "imq.md": {
        "$ make run CONFIG=config/imq-master": "three brokers: tests/integration/examples/test_sample_clusters.py",
        "$ make run CONFIG=config/imq-enhanced": "three brokers: tests/integration/examples/test_sample_clusters.py",
        "imq.cluster.ha=true": "tests/unit/config/imq/test_enhanced.py",
        "$ mqbroker imq brokerd -varhome /var/imq -name b1 -port 7676 -Dimq.cluster.url=file:/etc/imq/cluster.properties": HOME_BROKERS,
        "$ mqbroker imq create dst -t q -n orders -o maxNumMsgs=100000 -o limitBehavior=FLOW_CONTROL "
        "-b b1:7676 -passfile passfile": HOME_BROKERS,
        "imq.cluster.nomasterbroker=true": "a file of properties: tests/unit/config/imq/test_databases.py",
        "$ mqbroker imq dbmgr create sharecc_tbl -varhome /var/imq -name b1": "needs an instance: tests/unit/cli/imq/test_dbmgr_record.py",
    },
    "java.md": {
        "<dependency>": JAVA_PAGE,
        "import jakarta.jms.JMSContext;": JAVA_PAGE,
        "spring.artemis.mode=native": JAVA_PAGE,
        "java.naming.factory.initial=org.apache.activemq.artemis.jndi.ActiveMQInitialContextFactory": JAVA_PAGE,
        "import jakarta.jms.ConnectionFactory;": JAVA_PAGE,
    },
    "operations.md": {
        "[Unit]": "needs systemd; the command in it is that of the first block",
        "$ /var/lib/old/bin/artemis data exp --output exp.xml": "needs an Artemis: tests/interop/test_export_and_import.py",
    },
    "performance.md": {
        "$ make bench": "takes an hour: tests/bench/test_bench.py runs a part",
    },
    "performance-notes.md": {
        "$ MQBROKER_COMPILED=1 pip install . ./clients/mqclient": "compiles: tests/packaging/test_compiled.py",
    },
    "scaling.md": {"$ python -m tests.bench.scaling": "takes half an hour"},
    "soak.md": {
        "$ python -m pytest tests/integration/kill": THE_TESTS,
        "$ python -m pytest tests/integration/ha/failures": THE_TESTS,
        "$ python -m pytest tests/spark/failures": THE_TESTS,
        "$ make soak MINUTES=60": "takes an hour: tests/unit/soak has its parts",
    },
    "spark.md": {
        "$ make spark-example": "needs Spark: tests/spark/test_example.py",
        "$ python3 -m venv /path/to/environment": INSTALLS,
        "import os": SPARK_PAGES,
        "query = (": SPARK_PAGES,
        'frame.selectExpr("to_json(struct(*)) AS text").write.format("mqbroker").option("url", url)'
        '.option("queue", "totals").mode("append").save()': SPARK_PAGES,
        "CREATE TEMPORARY VIEW orders USING mqbroker OPTIONS (url 'tcp://localhost:61616', queue 'orders')": SPARK_PAGES,
        '{"version":1,"reader":"warehouse","nodes":{"53ac8e2c-…":{"orders":1234}}}': SPARK_PAGES,
        "from mqspark.settling import install": SPARK_PAGES,
        "$ python -m mqspark settle --checkpoint /data/orders-checkpoint --url tcp://localhost:61616": SPARK_PAGES,
    },
    "spark-jobs.md": {
        "$ python -m mqspark archive --queue orders --to /data/archive --dry-run": SPARK_JOBS,
        "spark.read.parquet(\"/data/archive\").where(\"day = '2026-11-21' and properties['price']::double > 100\")": SPARK_PAGES,
        "$ python -m mqspark stats --archive /data/archive --html stats.html": SPARK_JOBS,
        "$ python -m mqspark replay --archive /data/archive --map orders=orders.again --dry-run": SPARK_JOBS,
        "$ python -m mqspark deadletters --queue DLQ --reason-property failure": SPARK_JOBS,
        "$ python -m mqspark settle --checkpoint /data/archive/_checkpoint --dry-run": SPARK_JOBS,
        "$ python -m mqspark transactions --url tcp://host:61616 --dry-run": SPARK_JOBS,
        "$ python -m mqspark audit --queue orders --archive /data/archive --sequence number --producer sender": (
            "takes minutes: tests/spark/test_audit.py"
        ),
        "from mqspark.jobs.archive import archive, plan_archive": SPARK_PAGES,
    },
    "spark-journal.md": {'journal = spark.read.format("mqbroker-journal")': SPARK_PAGES},
}
"""By page and first line without its comment: the blocks that ``test_code_blocks.py`` does not run, why not, and what runs them instead."""

IN_CORE = (
    '<configuration xmlns="urn:activemq"><core xmlns="urn:activemq:core">'
    "<security-enabled>false</security-enabled>{}</core></configuration>"
)
CONNECTORS = (
    '<connectors><connector name="netty-connector">tcp://127.0.0.1:61616</connector>'
    '<connector name="other-connector">tcp://127.0.0.1:61617</connector></connectors>'
)
CLUSTER = (
    '<cluster-connections><cluster-connection name="c"><connector-ref>netty-connector</connector-ref></cluster-connection>'
    "</cluster-connections>"
)
AROUND: dict[str, dict[str, str]] = {
    "client-guide.md": {
        "def done(batch):": """
from mqclient.sockets import SocketRuntime, server_locator
from mqclient.wire.message import CoreMessage, encode_message
messages = [encode_message(CoreMessage(0, "orders", body=b"x"))]
with SocketRuntime() as runtime:
    locator = server_locator("tcp://localhost:61616", runtime=runtime)
    session = runtime.run(runtime.run(locator.create_session_factory(), 10).create_session(), 10)
    {}
    runtime.run(locator.close(), 10)
""",
        'await session.create_queue(QueueConfiguration(name="orders"), if_missing=True)': """
import asyncio
from mqclient.asyncio import server_locator
from mqclient.core.api import QueueConfiguration

async def main():
    async with server_locator("tcp://127.0.0.1:61616") as locator:
        session = await (await locator.create_session_factory()).create_session()
        {}
        await producer.send(session.create_text_message("one"))

asyncio.run(main())
""",
        "readers = session.readers": """
import asyncio
from mqclient.asyncio import server_locator
from mqclient.core.api import QueueConfiguration

async def main():
    locator = server_locator("tcp://127.0.0.1:61616")
    session = await (await locator.create_session_factory()).create_session()
    await session.create_shared_queue(QueueConfiguration(name="orders"))
    {}
    await readers.remove("orders", "warehouse")
    await locator.close()

asyncio.run(main())
""",
    },
    "core-bridges.md": {
        "<transformer>": IN_CORE.format(
            CONNECTORS + '<bridges><bridge name="b"><queue-name>orders</queue-name>{}<static-connectors>'
            "<connector-ref>netty-connector</connector-ref></static-connectors></bridge></bridges>"
        ),
        "from mqclient.wire.message import CoreMessage": """
{}
stamp = Stamp()
stamp.init({{"branch": "north"}})
assert stamp.transform(CoreMessage(0, "a")).properties == {{"branch": (STRING, "north")}}
""",
    },
    "discovery.md": {'<broadcast-group name="my-broadcast-group">': IN_CORE.format(CONNECTORS + "<broadcast-groups>{}</broadcast-groups>")},
    "diverts.md": {
        "from mqclient.wire.properties import STRING": """
from mqclient.wire.message import CoreMessage
{}
assert transform(CoreMessage(0, "a"), {{"source": "b"}}).properties == {{"source": (STRING, "b")}}
""",
    },
    "ha.md": {"<ha-policy>": IN_CORE.format(CONNECTORS + CLUSTER + "{}")},
    "operations.md": {
        '<acceptor name="tls">tcp://0.0.0.0:61617?sslEnabled=true;keyStorePath=etc/server.pem;keyStoreType=PEM;protocols=CORE</acceptor>': (
            IN_CORE.format("<acceptors>{}</acceptors>")
        ),
        "import json": """
from mqclient.jms import XAConnectionFactory
from mqclient.xa import Xid
with XAConnectionFactory("tcp://127.0.0.1:61616").create_xa_context() as prepared:
    prepared.xa_resource.start(Xid(1, b"global", b"branch"))
    prepared.create_producer().send("queue://doubtful", "x")
    prepared.xa_resource.end(Xid(1, b"global", b"branch"))
    prepared.xa_resource.prepare(Xid(1, b"global", b"branch"))
{}
with XAConnectionFactory("tcp://127.0.0.1:61616").create_xa_context() as prepared:
    prepared.xa_resource.forget(Xid(1, b"global", b"branch"))  # fails for a branch that nobody has decided
""",
    },
}
"""By page and first line: what stands around a block that is a part of a program or of a file."""


@dataclass(frozen=True)
class Block:
    """A fenced block of a page."""

    page: str
    language: str
    text: str

    @property
    def first_line(self) -> str:
        """The first line that is not empty, without its comment."""
        return re.sub(r"\s+#.*", "", next(line for line in self.text.splitlines() if line))

    @property
    def left_out(self) -> bool:
        return self.first_line in NOT_RUN.get(self.page, {})

    @property
    def whole(self) -> str:
        """The text, with what stands around it."""
        around = AROUND.get(self.page, {}).get(self.first_line)
        if around is None:
            return IN_CORE.format(self.text) if self.language == "xml" and not self.text.startswith("<broker") else self.text
        indent = re.search(r"^ *(?=\{\}$)", around, re.M)
        return around.format(self.text.strip().replace("\n", "\n" + indent[0]) if indent else self.text)


def page_name(path: Path) -> str:
    """The file's name, with the folder of a page that is neither in docs nor at the top."""
    return path.name if path.parent in (ROOT, ROOT / "docs") else path.relative_to(ROOT).as_posix()


def blocks_of(path: Path) -> Iterator[Block]:
    """All blocks of a page.  The directives of the documentation, whose language is in braces, are none."""
    for _, language, text in FENCED.findall(path.read_text(encoding="utf-8")):
        if not language.startswith("{"):
            yield Block(page_name(path), language, dedent(text))
