"""Requests to the management address, and what replies say."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from mqclient.management import ManagementError, attribute, operation, result


class Requests(SynchronousTestCase):
    def test_an_operation_has_its_parameters_as_a_json_array_without_spaces(self) -> None:
        request = operation("queue.orders", "listMessages", ["a = 1", [1, 2]])
        self.assertEqual(request.properties, {"_AMQ_ResourceName": "queue.orders", "_AMQ_OperationName": "listMessages"})
        self.assertEqual(request.text, '["a = 1",[1,2]]')

    def test_an_operation_without_parameters_has_an_empty_array(self) -> None:
        self.assertEqual(operation("broker", "listConnections").text, "[]")

    def test_an_attribute_has_no_text(self) -> None:
        self.assertEqual(attribute("broker", "Version"), ({"_AMQ_ResourceName": "broker", "_AMQ_Attribute": "Version"}, None))


class Results(SynchronousTestCase):
    def test_the_result_is_the_one_element_of_the_array(self) -> None:
        self.assertEqual(result('[{"a": 1}]', True), {"a": 1})

    def test_a_reply_without_text_has_no_result(self) -> None:
        self.assertIsNone(result(None, True))

    def test_a_refusal_says_what_the_broker_says(self) -> None:
        error = self.assertRaises(ManagementError, result, '["AMQ229017: Queue q does not exist"]', False)
        self.assertEqual(str(error), "AMQ229017: Queue q does not exist")

    def test_a_refusal_without_a_reason_and_a_reply_without_a_verdict_are_refusals(self) -> None:
        self.assertIn("no reason", str(self.assertRaises(ManagementError, result, None, False)))
        self.assertRaises(ManagementError, result, "[1]", None)
