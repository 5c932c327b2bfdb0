"""The brokers of ``mqbroker demo takeover``: an enhanced cluster on one file of SQLite."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from mqbroker.cli.demo.brokers import BROKER_XML, QUEUE, Brokers, Node
from mqbroker.cli.management import json_object

if TYPE_CHECKING:
    from mqbroker.cli.management import Management

_BOOTSTRAP: Final = """<?xml version="1.0" encoding="UTF-8"?>
<broker xmlns="http://activemq.apache.org/schema">
   <jaas-security domain="activemq"/>
</broker>
"""
_LOGIN: Final = """activemq {
   org.apache.activemq.artemis.spi.core.security.jaas.GuestLoginModule required
       org.apache.activemq.jaas.guest.user="guest"
       org.apache.activemq.jaas.guest.role="guest";
};
"""
_PROPERTIES: Final = """imq.cluster.ha=true
imq.cluster.clusterid=demo
imq.brokerid={name}
imq.hostname=127.0.0.1
imq.portmapper.port={port}
imq.persist.store=jdbc
imq.persist.jdbc.opendburl=jdbc:sqlite:{database}
imq.cluster.heartbeat.interval=1
imq.cluster.heartbeat.threshold=2
imq.cluster.monitor.interval=1
imq.cluster.monitor.threshold=2
"""
_FOLLOW: Final = "useTopologyForLoadBalancing=false&ha=true&exactlyOnce=true&reconnectAttempts=-1&retryInterval=200&maxRetryInterval=500"


class Member(Node):
    """One broker.  The clients of ``home`` go on at its taker."""

    def configure_member(self, password: str) -> None:
        instance = self.folder / "instances" / self.name
        for part in ("etc", "props"):
            (instance / part).mkdir(parents=True)
        text = BROKER_XML.format(name=self.name, queue=QUEUE, password=password, core="", settings="")
        (instance / "etc" / "broker.xml").write_text(text, encoding="utf-8")
        (instance / "etc" / "bootstrap.xml").write_text(_BOOTSTRAP, encoding="utf-8")
        (instance / "etc" / "login.config").write_text(_LOGIN, encoding="utf-8")
        database = self.folder.parent / "mq.db"
        text = _PROPERTIES.format(name=self.name, port=self.port, database=database)
        (instance / "props" / "config.properties").write_text(text, encoding="utf-8")

    @property
    def command(self) -> list[str]:
        return [sys.executable, "-m", "mqbroker.cli.daemon", "--instance", str(self.folder / "instances" / self.name)]

    @property
    def home(self) -> Home:
        return Home(self.name, f"tcp://127.0.0.1:{self.port}?{_FOLLOW}")


@dataclass(frozen=True, slots=True)
class Home:
    """The place to which a client connects first."""

    name: str
    url: str


class Members(Brokers):
    """An enhanced cluster of ``count`` brokers, on ports that the system chose."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.members = [Member(f"b{number}", self.folder) for number in range(count)]
        for member in self.members:
            member.configure_member(self.password)
        self.nodes: Sequence[Node] = self.members


@dataclass(frozen=True, slots=True)
class MemberFigures:
    """The answer of one member: the messages of its queue, and of all members the state and the taker."""

    waiting: int
    consumers: int
    states: dict[str, tuple[str, str]]


def member_figures(broker: Management) -> MemberFigures:
    queue = f"queue.{QUEUE}"
    waiting, consumers = (int(broker.attribute(queue, name)) for name in ("MessageCount", "ConsumerCount"))
    rows: Any = json_object(broker.invoke("imq.broker", "listBrokers"))
    return MemberFigures(waiting, consumers, {row["brokerID"]: (row["state"], row["takeoverBrokerID"]) for row in rows["brokers"]})
