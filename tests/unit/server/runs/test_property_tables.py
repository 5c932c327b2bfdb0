"""What the properties of a message ask of the broker, seen without decoding them."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.messaging.message.message import PROPERTIES_CHECKED_FROM
from mqbroker.server.runs.property_tables import BridgedTable, PlainTable, id_behind, look_through
from mqclient.wire.properties import BYTE, BYTES, INT, STRING, TypedValue, encode_properties

PLAIN: dict[str, TypedValue] = {"colour": (STRING, "red"), "number": (INT, 5)}
ANYCAST: dict[str, TypedValue] = {"_AMQ_ROUTING_TYPE": (BYTE, 1)}
ID: dict[str, TypedValue] = {"_AMQ_DUPL_ID": (BYTES, b"abcd")}


def block(*parts: dict[str, TypedValue]) -> bytes:
    return encode_properties({name: value for part in parts for name, value in part.items()})


class LookTests(SynchronousTestCase):
    def test_properties_of_the_application_ask_for_nothing(self) -> None:
        data = block(PLAIN)
        look = look_through(data, 0, len(data))
        assert look is not None
        self.assertEqual((look.routing_type, look.id_at), (None, None))

    def test_a_routing_type_is_found_with_the_block_up_to_it(self) -> None:
        data = block(PLAIN, ANYCAST, {"more": (INT, 1)})
        look = look_through(data, 0, len(data))
        assert look is not None
        self.assertEqual((look.routing_type, look.entries, look.id_at), (1, 3, None))
        self.assertTrue(data.startswith(look.routed))

    def test_a_duplicate_id_is_found_where_it_stands(self) -> None:
        data = b"before" + block(ANYCAST, ID)
        look = look_through(data, 6, len(data))
        assert look is not None and look.id_at is not None
        self.assertEqual(data[slice(*look.id_at)], b"abcd")

    def test_anything_else_for_the_broker_is_not_plain(self) -> None:
        for more in (
            {"_AMQ_SCHED_DELIVERY": (INT, 5)},
            {"_AMQ_ROUTING_TYPE": (BYTE, 2)},
            {"_AMQ_ROUTING_TYPE": (INT, 1)},
            {"_AMQ_DUPL_ID": (INT, 1)},
            {"_AMQ_DUPL_ID": (BYTES, b"")},
        ):
            data = block(PLAIN, more)
            self.assertIsNone(look_through(data, 0, len(data)), more)

    def test_an_id_before_the_routing_type_is_not_plain(self) -> None:
        data = block(ID, ANYCAST)
        self.assertIsNone(look_through(data, 0, len(data)))

    def test_a_damaged_block_is_not_plain(self) -> None:
        data = block(ANYCAST, ID)
        self.assertIsNone(look_through(data[:-1], 0, len(data) - 1))


class BehindTests(SynchronousTestCase):
    def test_the_id_behind_a_known_beginning_is_found(self) -> None:
        start = len(block(ANYCAST))
        data = block(ANYCAST, ID, PLAIN)
        found = id_behind(data, start, len(data))
        assert found is not None
        self.assertEqual(data[slice(*found)], b"abcd")

    def test_what_is_no_id_is_not_taken_for_one(self) -> None:
        start = len(block(ANYCAST))
        for parts in ((ANYCAST, PLAIN), (ANYCAST, ID, {"_AMQ_LVQ_NAME": (STRING, "k")}), (ANYCAST, {"_AMQ_DUPL_ID": (INT, 4)})):
            data = block(*parts)
            self.assertIsNone(id_behind(data, start, len(data)))

    def test_an_id_that_is_cut_off_is_none(self) -> None:
        data = block(ANYCAST, ID)
        start = len(block(ANYCAST))
        for end in range(start, len(data)):
            self.assertIsNone(id_behind(data[:end], start, end))


def plain(*parts: dict[str, TypedValue], start: bytes = b"") -> bytes:
    return start + block(ANYCAST, *parts)


class PlainTableTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.table = PlainTable(1)

    def look(self, data: bytes) -> bool:
        return self.table.look(data, 0, len(data))

    def test_the_second_table_of_a_size_makes_the_template(self) -> None:
        self.assertTrue(self.look(plain(ID, PLAIN)))
        self.assertEqual(self.table.size, -1)
        data = plain({"_AMQ_DUPL_ID": (BYTES, b"efgh")}, PLAIN)
        self.assertTrue(self.look(data))
        self.assertEqual(self.table.size, len(data))
        assert self.table.id_at is not None
        self.assertEqual(data[slice(*self.table.id_at)], b"efgh")

    def test_values_of_the_client_may_differ_and_nothing_else(self) -> None:
        for _ in range(2):
            self.look(plain(PLAIN))
        for fits, data in (
            (True, plain({"colour": (STRING, "BLU"), "number": (INT, 9)}, start=b"before")),
            (False, plain({"colouR": (STRING, "red"), "number": (INT, 5)}, start=b"before")),
            (False, plain({"colour": (BYTES, b"sixsix"), "number": (INT, 5)}, start=b"before")),
        ):
            self.assertEqual(len(data) - 6, self.table.size)
            begins = data.startswith(self.table.known, 6)
            self.assertEqual(begins and not self.table.differs(data, 6), fits, data)

    def test_a_table_with_another_routing_type_does_not_go_with_it(self) -> None:
        self.assertTrue(self.look(plain(PLAIN)))
        self.assertFalse(self.look(block({"_AMQ_ROUTING_TYPE": (BYTE, 0)}, PLAIN)))
        self.assertFalse(self.look(block(PLAIN)))

    def test_a_table_that_cannot_be_decoded_is_refused(self) -> None:
        data = plain(PLAIN)
        self.assertTrue(self.look(data))
        self.assertFalse(self.look(data[:-1]))

    def test_a_longer_table_than_may_be_checked_at_once_is_refused(self) -> None:
        self.assertFalse(self.look(plain({"long": (BYTES, bytes(PROPERTIES_CHECKED_FROM))})))


ROUTE: dict[str, TypedValue] = {"_AMQ_ROUTE_TO": (BYTES, bytes(7) + b"\5")}
BRIDGE_ID: dict[str, TypedValue] = {"_AMQ_BRIDGE_DUP": (BYTES, b"0123456789")}


class BridgedTableTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.table = BridgedTable()

    def look(self, data: bytes) -> bool:
        return self.table.look(data, 0, len(data))

    def kept(self, data: bytes) -> bytes:
        return self.table.head + b"".join(data[first:last] for first, last in self.table.kept)

    def test_what_the_link_has_put_into_it_is_left_out(self) -> None:
        for parts in ((ROUTE, PLAIN, BRIDGE_ID), (PLAIN, ANYCAST, ROUTE, BRIDGE_ID, ID), (BRIDGE_ID, ROUTE), (BRIDGE_ID, PLAIN, ROUTE)):
            self.table = BridgedTable()
            data = block(*parts)
            self.assertTrue(self.look(data), parts)
            self.assertEqual(self.kept(data), block(*(part for part in parts if part not in (ROUTE, BRIDGE_ID))))
            assert self.table.id_at is not None
            self.assertEqual(data[slice(*self.table.id_at)], b"0123456789")

    def test_ids_and_values_of_the_client_may_differ_and_queues_not(self) -> None:
        self.look(block(PLAIN, ROUTE, BRIDGE_ID))
        for fits, parts in (
            (True, ({"colour": (STRING, "BLU"), "number": (INT, 9)}, ROUTE, {"_AMQ_BRIDGE_DUP": (BYTES, b"9876543210")})),
            (False, (PLAIN, {"_AMQ_ROUTE_TO": (BYTES, bytes(7) + b"\6")}, BRIDGE_ID)),
        ):
            data = b"before" + block(*parts)
            self.assertEqual(self.table.fits(data, 6, len(data)), fits)

    def test_a_table_that_states_other_queues_does_not_go_with_it(self) -> None:
        self.assertTrue(self.look(block(ROUTE, BRIDGE_ID)))
        self.assertFalse(self.look(block({"_AMQ_ROUTE_TO": (BYTES, bytes(7) + b"\6")}, BRIDGE_ID)))
        self.assertFalse(self.look(block(ANYCAST, ROUTE, BRIDGE_ID)))
        self.assertTrue(self.look(block(PLAIN, ROUTE, BRIDGE_ID)))

    def test_anything_else_for_the_broker_is_refused(self) -> None:
        for parts in (
            (ROUTE,),
            (BRIDGE_ID,),
            (ROUTE, {"_AMQ_BRIDGE_DUP": (BYTES, b"")}),
            ({"_AMQ_ROUTE_TO": (BYTES, b"1234567")}, BRIDGE_ID),
            (ROUTE, BRIDGE_ID, {"_AMQ_ACK_ROUTE_TO": (BYTES, bytes(8))}),
            (ROUTE, BRIDGE_ID, {"_AMQ_ROUTING_TYPE": (BYTE, 2)}),
        ):
            self.assertFalse(self.look(block(*parts)), parts)
        self.assertFalse(self.look(block(ROUTE, BRIDGE_ID) + b"more"))
