"""Tables in the form of imqcmd."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.cli.imq.tables import nested, properties, table


class TableTests(SynchronousTestCase):
    def test_columns_stand_between_dashes(self) -> None:
        self.assertEqual(
            table(("Host", "Primary Port"), [("10.77.0.1", 7676)]).splitlines(),
            ["-------------------------", "Host         Primary Port", "-------------------------", "10.77.0.1    7676"],
        )

    def test_titles_may_be_centred(self) -> None:
        lines = table(("Address", "State"), [("10.77.0.2:7676", "OPERATING")], gap=3, centred=True).splitlines()
        self.assertEqual(lines[:2], ["-" * 26, "   Address         State"])

    def test_titles_above_make_room_for_themselves(self) -> None:
        lines = table(("", "a", "b"), [("x", 1, 2)], (("Name", 1), ("Long title", 2)), gap=2).splitlines()
        self.assertEqual(lines[1:3], ["Name  Long title", "      a  b"])
        self.assertEqual({len(lines[0]), len(lines[3])}, {16})
        self.assertEqual(lines[4], "x     1  2")

    def test_groups_of_properties(self) -> None:
        groups = [[("a", "1"), ("longer", "")], [("    b", "2")]]
        self.assertEqual(properties(groups).splitlines(), ["a         1", "longer", "", "    b     2"])
        self.assertEqual(properties([]), "")

    def test_indented_titles_are_below_the_one_before(self) -> None:
        groups = [[("Messages", ""), ("    Actual", "1"), ("    Remote", "2"), ("Producers", "3")]]
        self.assertEqual(nested(groups), {"Messages": {"Actual": "1", "Remote": "2"}, "Producers": "3"})
