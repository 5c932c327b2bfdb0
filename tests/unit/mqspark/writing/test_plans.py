"""The plan of a query: whoever is there, and whenever a driver goes away, all of its rows go by the same one."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SkipTest, SynchronousTestCase

from mqclient.core.connection.configuration import NETTY_CONNECTOR
from mqclient.wire.primitives import TransportConfiguration

try:
    import pyspark

    from mqspark.broker.nodes import Node
    from mqspark.errors import BadOptionError, BrokerUnreachableError, MqsparkError
    from mqspark.options import Options, Use
    from mqspark.writing import plans
    from mqspark.writing.plans import Record, agree, check_all_there, decode_plan, encode_plan
except ImportError:
    pyspark = None

NAMES = "abc"


class Crash(Exception):
    """The task is gone."""


class FakeRecords:
    """What :class:`mqspark.writing.plans.NodePlans` does; ``step`` is called before and after each change."""

    def __init__(self, step: Callable[[], None]) -> None:
        self.proposed: tuple[str, ...] | None = None
        self.confirmed = False
        self.step = step

    def look(self, query: str) -> Record | None:
        return None if self.proposed is None else Record(self.proposed, self.confirmed)

    def propose(self, query: str, nodes: Sequence[str], now: int) -> None:
        self.step()
        self.proposed = self.proposed or tuple(nodes)
        self.step()

    def confirm(self, query: str, nodes: Sequence[str], now: int) -> None:
        self.step()
        assert self.proposed == tuple(nodes), (self.proposed, nodes)
        self.confirmed = True
        self.step()


class PlansTestCase(SynchronousTestCase):
    def setUp(self) -> None:
        if pyspark is None:
            raise SkipTest("pyspark is not installed")
        self.left = 1000

    def step(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise Crash

    def nodes(self) -> dict[str, FakeRecords]:
        return {name: FakeRecords(self.step) for name in NAMES}

    def agreed(self, nodes: dict[str, FakeRecords], members: str, away: str = "", check: Callable[[], None] = lambda: None) -> str:
        """What the tasks of a batch go by when these are in the topology, and ``away`` of them cannot be reached."""

        def reach(name: str) -> FakeRecords:
            if name in away:
                raise BrokerUnreachableError(f"no answer of {name}")
            return nodes[name]

        return "".join(agree("q", list(members), reach, check, 0))


class AgreeTests(PlansTestCase):
    @given(
        st.sampled_from(["a", "b", "ab", "ac", "abc"]),
        st.lists(st.tuples(st.sampled_from(["a", "b", "c", "ab", "ac", "bc", "abc"]), st.integers(0, 14)), min_size=1, max_size=6),
    )
    @settings(max_examples=300, deadline=None)
    def test_one_plan_for_ever(self, url: str, runs: list[tuple[str, int]]) -> None:
        """Each run sees some of the nodes, through one of those that ``url`` names, and is cut off after so many steps."""
        nodes = self.nodes()
        sent: set[str] = set()
        for members, steps in runs:

            def check(members: str = members) -> None:
                if not set(url) <= set(members):
                    raise BrokerUnreachableError("not all that the URL names are there")

            if not set(url) & set(members):
                continue
            self.left = steps
            try:
                plan = self.agreed(nodes, members, check=check)
            except (Crash, BrokerUnreachableError):
                continue
            self.assertLessEqual(set(plan), set(members))
            sent.add(plan)
        self.assertLessEqual(len(sent), 1)

    def test_the_first_plan_is_who_is_there(self) -> None:
        nodes = self.nodes()
        self.assertEqual(self.agreed(nodes, "abc"), "abc")
        self.assertEqual([node.look("q") for node in nodes.values()], [Record(("a", "b", "c"), True)] * 3)

    def test_later_members_get_nothing(self) -> None:
        nodes = self.nodes()
        self.agreed(nodes, "bc")
        self.assertEqual(self.agreed(nodes, "abc"), "bc")
        self.assertIsNone(nodes["a"].look("q"))

    def test_a_node_of_the_plan_is_away(self) -> None:
        nodes = self.nodes()
        self.agreed(nodes, "abc")
        for members, away in (("bc", ""), ("c", ""), ("abc", "a")):
            error = self.assertRaises(BrokerUnreachableError, self.agreed, nodes, members, away)
            self.assertIn("query q sends to node a, which is away", str(error))
            self.assertIn("the option nodes", str(error))

    def test_a_proposal_that_was_not_confirmed_holds(self) -> None:
        nodes = self.nodes()
        self.left = 3
        self.assertRaises(Crash, self.agreed, nodes, "abc")
        self.assertEqual([node.proposed is not None for node in nodes.values()], [True, True, False])
        self.left = 1000
        self.assertRaises(BrokerUnreachableError, self.agreed, nodes, "bc")
        self.assertEqual(self.agreed(nodes, "abc"), "abc")

    def test_nobody_is_left_out_of_the_first_plan(self) -> None:
        nodes = self.nodes()
        self.assertRaises(BrokerUnreachableError, self.agreed, nodes, "abc", "c")
        self.assertEqual([node.look("q") for node in nodes.values()], [None] * 3)

        def check() -> None:
            raise BadOptionError("not all there")

        self.assertRaises(BadOptionError, self.agreed, nodes, "ab", "", check)
        self.agreed(nodes, "ab")
        self.assertEqual(self.agreed(nodes, "ab", "", check), "ab")

    def test_proposals_that_contradict_each_other(self) -> None:
        """Of two drivers that begin at once, one that sees less: its plan is the one that can be confirmed."""
        nodes = self.nodes()
        nodes["a"].propose("q", "ab", 0)
        nodes["b"].propose("q", "b", 0)
        self.assertRaises(BrokerUnreachableError, self.agreed, nodes, "a")
        self.assertEqual(self.agreed(nodes, "ab"), "b")
        for name, other in (("a", "b"), ("b", "c"), ("c", "a")):
            nodes[name] = FakeRecords(self.step)
            nodes[name].propose("q", name + other, 0)
        error = self.assertRaises(MqsparkError, self.agreed, nodes, "abc")
        self.assertIn("contradict each other", str(error))

    def test_one_that_is_faster(self) -> None:
        """Another driver proposes between the look and the proposal."""
        nodes = self.nodes()
        nodes["a"].step = lambda: nodes["b"].propose("q", "b", 0)
        self.assertEqual(self.agreed(nodes, "ab"), "b")

    def test_one_that_is_faster_and_sees_less(self) -> None:
        """Who comes second at the first node proposes nothing at those behind it: the two would contradict each other for ever."""
        nodes = self.nodes()

        def faster() -> None:
            nodes["a"].proposed = nodes["a"].proposed or ("a", "b")

        nodes["a"].step = faster
        self.assertEqual(self.agreed(nodes, "abc"), "ab")
        self.assertIsNone(nodes["c"].proposed)

    def test_texts(self) -> None:
        self.assertEqual(decode_plan(encode_plan(["x", "y"])), ("x", "y"))
        for text in ("", "[]", "{}", '{"version":2,"nodes":["a"]}', '{"version":1,"nodes":[]}'):
            self.assertRaises(MqsparkError, decode_plan, text)


class AllThereTests(PlansTestCase):
    def members(self) -> list[Node]:
        connectors = [TransportConfiguration("c", NETTY_CONNECTOR, (("host", "h"), ("port", str(port)))) for port in (1, 2)]
        return [Node("n", tuple(connectors)), Node("m", (TransportConfiguration("c", NETTY_CONNECTOR, (("host", "i"), ("port", "3"))),))]

    def check(self, url: str) -> None:
        check_all_there(Options.parse({"url": url, "queue": "q", "connectTimeout": "50"}, Use.WRITE), self.members())

    def test_members_and_their_backups(self) -> None:
        self.check("(tcp://h:1,tcp://h:2,tcp://i:3)")
        self.check("tcp://h:2")

    def test_a_broker_that_is_not_there(self) -> None:
        error = self.assertRaises(BrokerUnreachableError, self.check, "(tcp://h:1,tcp://127.0.0.1:1)")
        self.assertIn("a query needs all brokers that the option url names", str(error))

    def test_another_name_of_a_member(self) -> None:
        class Answering:
            def __init__(self, node_id: str) -> None:
                self.node_id = node_id

            def __enter__(self) -> Answering:
                return self

            def __exit__(self, *_: object) -> None: ...

        self.patch(plans, "connect", lambda options, node, **_: Answering("m"))
        self.check("(tcp://h:1,tcp://alias:3)")
        self.patch(plans, "connect", lambda options, node, **_: Answering("stranger"))
        error = self.assertRaises(BrokerUnreachableError, self.check, "(tcp://h:1,tcp://alias:3)")
        self.assertIn("stranger", str(error))

    def test_discovery_names_no_brokers(self) -> None:
        error = self.assertRaises(BadOptionError, self.check, "udp://231.7.7.7:9876")
        self.assertIn("there are now: n, m", str(error))
