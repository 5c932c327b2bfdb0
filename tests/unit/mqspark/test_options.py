"""The options of the data sources: names, types, defaults, what excludes what, and that no secret shows."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from mqspark.errors import BadOptionError, MqsparkError
from mqspark.options import OPTIONS, Options, Use

URL = "tcp://127.0.0.1:61616"
READ = {"url": URL, "queue": "orders"}


class ParsingTests(SynchronousTestCase):
    def refused(self, mapping: dict[str, str], allowed: Use) -> str:
        return str(self.assertRaises(BadOptionError, Options.parse, mapping, allowed))

    def test_names_come_without_their_case(self) -> None:
        options = Options.parse({"url": URL, "QUEUE": "orders", "maxmessagespertrigger": "100", "FailOnDataLoss": "FALSE"}, Use.READ_STREAM)
        self.assertEqual((options.queues, options.max_messages_per_trigger, options.fail_on_data_loss), (("orders",), 100, False))

    def test_defaults(self) -> None:
        options = Options.parse(READ, Use.READ)
        self.assertEqual((options.starting_offsets, options.ending_offsets, options.fail_on_data_loss), ("earliest", "latest", True))
        self.assertIsNone(options.max_bytes_per_trigger)

    def test_several_queues(self) -> None:
        self.assertEqual(Options.parse({"url": URL, "queue": "a, b"}, Use.READ).queues, ("a", "b"))
        self.assertIn("each once", self.refused({"url": URL, "queue": "a,a"}, Use.READ))
        self.assertIn("separated by commas", self.refused({"url": URL, "queue": "a,,b"}, Use.READ))
        self.assertIn("names 2 queues", self.refused({"url": URL, "queue": "a,b"}, Use.WRITE))

    def test_sizes_have_units(self) -> None:
        for text, size in (("1", 1), ("512b", 512), ("8k", 8192), ("64m", 64 << 20), ("2GB", 2 << 30)):
            self.assertEqual(Options.parse({**READ, "maxBytesPerTrigger": text}, Use.READ_STREAM).max_bytes_per_trigger, size)
        for text in ("", "0", "-1", "m", "1.5m", "64mi", "9999999g"):
            self.assertIn("64m", self.refused({**READ, "maxBytesPerTrigger": text}, Use.READ_STREAM))

    def test_bad_values_name_option_value_and_what_was_expected(self) -> None:
        for name, value, expected in (
            ("minPartitions", "many", "a number from 1"),
            ("minPartitions", "0", "a number from 1"),
            ("failOnDataLoss", "yes", "true or false"),
            ("startingOffsets", "newest", "earliest, latest, or JSON"),
            ("bodyFormat", "avro", "binary, text or json"),
            ("connectTimeout", "0", "ms from 1"),
        ):
            text = self.refused({**READ, name: value}, Use.READ)
            self.assertIn(f"the option {name}={value!r}: expected {expected}", text)

    def test_offsets_are_words_or_json(self) -> None:
        text = '{"version":1,"nodes":{"n":{"orders":12}}}'
        self.assertEqual(Options.parse({**READ, "startingOffsets": f" {text} "}, Use.READ).starting_offsets, text)
        self.assertEqual(Options.parse({**READ, "startingOffsets": "Latest"}, Use.READ).starting_offsets, "latest")
        self.assertIn("latest, or JSON", self.refused({**READ, "endingOffsets": "earliest"}, Use.READ))

    def test_an_unknown_option_names_the_nearest(self) -> None:
        self.assertEqual(self.refused({**READ, "selecter": "a=1"}, Use.READ), "the option selecter is not known; did you mean selector?")
        self.assertIn("there are: url, user", self.refused({**READ, "zzz": "1"}, Use.READ))

    def test_an_option_of_another_use_is_refused(self) -> None:
        text = self.refused({**READ, "maxMessagesPerTrigger": "5"}, Use.READ)
        self.assertEqual(text, "the option maxMessagesPerTrigger belongs to spark.readStream and does nothing for spark.read")
        self.assertEqual(Options.parse({**READ, "maxMessagesPerTrigger": "5"}, Use.SOURCE).max_messages_per_trigger, 5)

    def test_what_spark_itself_gives_to_a_sink_is_passed_over(self) -> None:
        Options.parse({**READ, "checkpointLocation": "x", "queryName": "q"}, Use.WRITE_STREAM)
        self.assertIn("checkpointLocation is not known", self.refused({**READ, "checkpointLocation": "x"}, Use.READ_STREAM))

    def test_what_is_missing_or_excludes_another(self) -> None:
        for mapping, allowed, part in (
            ({"queue": "a"}, Use.READ, "url is missing"),
            ({"url": URL}, Use.READ, "one of the options queue and topic"),
            ({"url": URL, "queue": "a", "topic": "t", "subscription": "s"}, Use.READ, "exclude each other"),
            ({"url": URL, "queue": "a", "subscription": "s"}, Use.READ, "subscription needs the option topic"),
            ({"url": URL, "topic": "t"}, Use.READ, "topic needs the option subscription"),
            ({}, Use.JOURNAL, "path is missing"),
        ):
            self.assertIn(part, self.refused(mapping, allowed))
        self.assertEqual(Options.parse({"url": URL}, Use.WRITE).queues, ())
        self.assertEqual(Options.parse({"url": URL, "topic": "t"}, Use.WRITE).topic, "t")
        self.assertEqual(Options.parse({"path": "data"}, Use.JOURNAL).table, "messages")

    def test_a_selector_speaks_of_headers_as_in_jms(self) -> None:
        """The broker knows them by other names, and a name that it does not know matches nothing."""
        for text, expected in (
            ("JMSPriority > 4 AND JMSDeliveryMode = 'PERSISTENT'", "AMQPriority > 4 AND AMQDurable = 'DURABLE'"),
            ("AMQPriority > 4 AND text = 'JMSPriority'", "AMQPriority > 4 AND text = 'JMSPriority'"),
            ("JMSType = 'a' AND size > 1", "JMSType = 'a' AND size > 1"),
        ):
            self.assertEqual(Options.parse({**READ, "selector": text}, Use.READ).selector, expected)
        self.assertIn("a message selector", self.refused({**READ, "selector": " "}, Use.READ))

    def test_the_schema_of_bodies_that_are_no_json(self) -> None:
        """Without the format it would be passed over, and the query would give bytes."""
        self.assertIn("bodySchema needs bodyFormat=json", self.refused({**READ, "bodySchema": "id bigint"}, Use.READ))
        self.assertEqual(Options.parse({**READ, "bodySchema": "id bigint", "bodyFormat": "json"}, Use.READ).body_schema, "id bigint")

    def test_urls_are_read_at_once(self) -> None:
        for url, part in (
            ("broker:61616", "expected scheme://host:port"),
            ("tcp://a:x", "not a number"),
            ("tcp://a?callTimeout=soon", "callTimeout='soon'"),
            ("vm://0", "expected tcp://"),
        ):
            text = self.refused({"url": url, "queue": "a"}, Use.READ)
            self.assertTrue(text.startswith("the option url: "), text)
            self.assertIn(part, text)
        for url in ("(tcp://a:1,tcp://b:2)?ha=true", "tcp://a:1?sslEnabled=true;trustStorePath=x"):
            Options.parse({"url": url, "queue": "a"}, Use.READ)


class SecretTests(SynchronousTestCase):
    def test_a_parameter_of_the_url_that_does_nothing_is_told(self) -> None:
        with self.assertLogs("mqspark.options", "WARNING") as logged:
            Options.parse({"url": f"{URL}?calTimeout=9&password=geheim", "queue": "orders"}, Use.READ)
        self.assertIn("calTimeout is not known and does nothing; is callTimeout meant?", "".join(logged.output))
        self.assertNotIn("geheim", "".join(logged.output))

    def test_no_secret_shows(self) -> None:
        options = Options.parse({**READ, "url": f"{URL}?password=in-url", "user": "u", "password": "hidden"}, Use.READ)
        self.assertEqual((options.password, options.user), ("hidden", "u"))
        for text in (repr(options), str(options), repr(options.configuration())):
            self.assertNotIn("hidden", text)
            self.assertNotIn("in-url", text)
        error = self.assertRaises(BadOptionError, Options.parse, {**READ, "url": "tcp://a?password=in-url;callTimeout=x"}, Use.READ)
        self.assertNotIn("in-url", str(error))

    def test_credentials_of_the_options_win_over_those_of_the_url(self) -> None:
        url = f"{URL}?user=a;password=b"
        plain = Options.parse({**READ, "url": url}, Use.READ).configuration().settings
        self.assertEqual((plain.user, plain.password), ("a", "b"))
        given = Options.parse({**READ, "url": url, "user": "c", "password": ""}, Use.READ).configuration().settings
        self.assertEqual((given.user, given.password), ("c", ""))

    def test_a_masked_password_of_the_url(self) -> None:
        """Only the client of JMS is given what it takes to read it; as it is the broker would refuse it."""
        masked = {"url": f"{URL}?user=ann&password=ENC(12ab)", "queue": "orders"}
        with self.assertRaisesRegex(BadOptionError, "is masked.*passwordFile"):
            Options.parse(masked, Use.READ)
        self.assertEqual(Options.parse(masked | {"password": "plain"}, Use.READ).configuration().settings.password, "plain")

    def test_the_password_of_a_file(self) -> None:
        path = Path(self.mktemp())
        path.write_text("first line\nsecond line\n")
        options = Options.parse({**READ, "user": "u", "passwordFile": str(path)}, Use.READ)
        path.unlink()
        self.assertEqual(pickle.loads(pickle.dumps(options)).configuration().settings.password, "first line")
        error = self.assertRaises(BadOptionError, Options.parse, {**READ, "passwordFile": str(path)}, Use.READ)
        self.assertIn("cannot be read: No such file", str(error))

    def test_the_password_of_the_environment(self) -> None:
        self.patch(os, "environ", {"BROKER_PASSWORD": "from-environment"})
        self.assertEqual(Options.parse({**READ, "passwordEnv": "BROKER_PASSWORD"}, Use.READ).password, "from-environment")
        error = self.assertRaises(BadOptionError, Options.parse, {**READ, "passwordEnv": "OTHER"}, Use.READ)
        self.assertIn("no such environment variable", str(error))

    def test_one_way_to_give_the_password(self) -> None:
        error = self.assertRaises(BadOptionError, Options.parse, {**READ, "password": "secret", "passwordEnv": "X"}, Use.READ)
        self.assertIn("only one of", str(error))
        self.assertNotIn("secret", str(error))


class TableTests(SynchronousTestCase):
    def test_names_are_unique_without_case_and_meanings_are_sentences(self) -> None:
        self.assertEqual(len({entry.name.lower() for entry in OPTIONS}), len(OPTIONS))
        for entry in OPTIONS:
            self.assertTrue(entry.meaning.endswith("."), entry.name)

    def test_defaults_in_the_table_are_values_that_are_read(self) -> None:
        for entry in OPTIONS:
            if entry.default and " " not in entry.default:
                entry.kind.read(entry.default)

    def test_errors_travel_between_processes(self) -> None:
        kinds = [kind for kind in vars(__import__("mqspark.errors").errors).values() if isinstance(kind, type)]
        for kind in kinds:
            if issubclass(kind, MqsparkError):
                copy = pickle.loads(pickle.dumps(kind("a sentence")))
                self.assertEqual((type(copy), str(copy)), (kind, "a sentence"))
