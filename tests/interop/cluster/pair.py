"""A replicated pair of real Artemis brokers in a cluster with others: brokers 0 and 1 are primary and backup, the others vote."""

from __future__ import annotations

from tests.interop.artemis import ArtemisBroker
from tests.interop.cluster.nodes import Nodes, Shape
from tests.interop.cluster.scenarios import Scenario, Stage, until
from tests.interop.processes import wait_for_port
from tests.interop.puppet import NOTHING_MS, Puppet

SYNCHRONISED = "AMQ221024"
TAKES_OVER = "AMQ221071"  # a majority says that the primary is gone
START_SECONDS = 180.0
TAKE_OVER_SECONDS = 60.0


def replicated_pair(nodes: Nodes, java: Puppet) -> None:
    """The primary is killed: the others say that it is gone, the backup goes on under its node id, links and clients follow."""
    primary, backup, voter = nodes[0], nodes[1], nodes[2]
    for number in (0, *range(2, len(nodes.brokers))):
        nodes[number].start()
    assert isinstance(backup, ArtemisBroker)
    backup.launch()
    assert backup.running is not None
    backup.running.wait_for_line(SYNCHRONISED, START_SECONDS)
    stage = Stage(nodes, java)
    java.connect("n0", f"{primary.url}?ha=true&reconnectAttempts=-1&retryInterval=200&callTimeout=5000")
    java.connect("n2", voter.url)
    stage.known(2, 0)
    stage.known(0, 2)
    members = len(nodes.brokers) - 1
    until(lambda: [str(primary.port), str(backup.port)] in java.topology("n2").values(), "clients of the voter know the pair")
    before = java.topology("n2")
    assert len(before) == members, before
    pair_id = next(node_id for node_id, (first, _) in before.items() if first == str(primary.port))

    java.consume("d0", "n0", "topic://news", subscription="archive", shared=True)
    java.consume("c2", "n2", "queue://to-voter")
    stage.known(2, 0)
    stage.known(0, 2)
    java.send("n2", "topic://news", 20)
    assert java.take("d0", 20) == list(range(20))
    java.close("d0")
    primary.kill()
    # While nobody is there: these wait in the store-and-forward queue of the voter.
    java.send("n2", "topic://news", 20, first=20)
    backup.running.wait_for_line(TAKES_OVER, TAKE_OVER_SECONDS)
    wait_for_port(backup.port, START_SECONDS, backup.running)
    until(lambda: java.topology("n2").get(pair_id, [None])[0] == str(backup.port), "the voter tells of the new primary")
    java.consume("d0", "n0", "topic://news", subscription="archive", shared=True)
    assert java.take("d0", 20, 20_000) == list(range(20, 40))
    assert java.take("d0", 1, NOTHING_MS) == []
    stage.known(0, 2)
    java.send("n0", "queue://to-voter", 5)
    assert java.take_all("c2", 5) == list(range(5))


POLICY = """
      <ha-policy>
         <replication>
            <{role}>
{options}
            </{role}>
         </replication>
      </ha-policy>
"""
VOTES = """\
               <vote-retries>20</vote-retries>
               <vote-retry-wait>1000</vote-retry-wait>"""
_GROUP = "               <group-name>{}</group-name>"


def _pair(group: str = "") -> dict[int, str]:
    return {0: POLICY.format(role="primary", options=group), 1: POLICY.format(role="backup", options=group + VOTES)}


SCENARIOS: dict[str, Scenario] = {
    "replicated-pair": Scenario(
        replicated_pair,
        Shape(core=_pair()),
        brokers=4,
        not_for="artemis",
        why="A real Artemis without replication has no vote: it does not answer, and the replica does not take over, also when all four "
        "are real. In `named-pair` real voters have a replication policy, and a group name keeps the replica away from them.",
    ),
    "named-pair": Scenario(
        replicated_pair,
        # Only primaries of replicated pairs have a vote, among real Artemis brokers.
        Shape(core=_pair(_GROUP.format("pair")), core_of_kind={"artemis": POLICY.format(role="primary", options=_GROUP.format("voters"))}),
        brokers=4,
    ),
}
