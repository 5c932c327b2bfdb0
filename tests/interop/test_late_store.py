"""The Java client's basic programs on a broker whose store answers everything later, and whose addresses page nearly everything."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tests.interop.cutting_proxy import CuttingProxy
from tests.interop.java_driver import Harness, run_scenarios
from tests.interop.maven import GENERATIONS, HERE, built
from tests.interop.mqbroker_process import MqbrokerProcess
from tests.interop.peers import kill_and_start, restart

FAMILIES = ("message-", "queue-", "topic-", "ack-", "listener", "tx-", "delivery-", "large-", "xa-", "restart-")
IN_MEMORY = (
    "ack-mixed-priorities",
    "delivery-full-address-block",
    "delivery-full-address-fail",
    "delivery-priority",
    "delivery-scheduled",
    "queue-last-value",
    "queue-ring",
)
"""Programs that ask for messages that are in memory together; pages have them in the order in which they came."""


class LateBroker(MqbrokerProcess):
    program = (
        "import mqbroker.app; from tests.support.late_store import make_late_store; mqbroker.app.make_store = make_late_store; "
        + MqbrokerProcess.program
    )
    roots = (*MqbrokerProcess.roots, ".")

    def start(self) -> None:
        path = self.folder / "etc" / "broker.xml"
        text = path.read_text()
        match = '<address-setting match="#">'
        paging = "<max-size-messages>1</max-size-messages><address-full-policy>PAGE</address-full-policy>"
        if match + paging not in text:
            path.write_text(text.replace(match, match + paging))
        super().start()


def test_basic_programs(java: None, tmp_path: Path) -> None:
    names = [name for name in basic_programs() if name not in IN_MEMORY]
    assert failures_of(LateBroker(tmp_path / "broker"), names) == {}


def basic_programs() -> list[str]:
    return [name for name in (HERE / "java" / "scenarios.txt").read_text().split() if name.startswith(FAMILIES)]


def failures_of(broker: MqbrokerProcess, names: Sequence[str]) -> dict[str, str]:
    """Run these programs on a broker that is not started yet.  Returns the errors by name; all programs have run."""
    built("java")
    broker.start()
    proxy = CuttingProxy(broker.port)
    try:
        harness = Harness(broker.url, proxy, lambda: restart(broker), lambda: kill_and_start(broker))
        results = run_scenarios(GENERATIONS[0], harness, names)
    finally:
        proxy.close()
        broker.stop()
    assert sorted(results) == sorted(names), "the run ended early"
    return {name: result.error for name, result in results.items() if not result.ok}
