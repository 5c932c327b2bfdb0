from __future__ import annotations

import json
from pathlib import Path
from unittest import mock

import click
from twisted.trial.unittest import SynchronousTestCase

from mqbroker.cli.check.check import Check, CheckFailed, run_checks
from mqbroker.cli.connection import acceptor_url, broker_url, connected
from mqbroker.cli.lazy import LazyGroup
from mqbroker.cli.management import ManagementError
from mqbroker.cli.options import ConnectionOptions
from mqbroker.cli.root import root
from mqbroker.cli.status import CommandError
from tests.unit.cli.runner import FakeManagement, mqbroker


def commands(group: click.Command, path: tuple[str, ...] = ()) -> list[tuple[tuple[str, ...], click.Command]]:
    if not isinstance(group, LazyGroup):
        return [(path, group)]
    context = click.Context(group)
    found: list[tuple[tuple[str, ...], click.Command]] = [(path, group)]
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        found += commands(command, (*path, name))
    return found


class HelpTests(SynchronousTestCase):
    def test_every_help_has_an_example_that_is_a_command(self) -> None:
        for path, command in commands(root):
            result = mqbroker(*path, "--help") if path != ("help",) else mqbroker("help", "help")
            self.assertEqual(result.status, 0, path)
            self.assertIn("Example: ", result.out, path)
            example = (command.epilog or "").partition("mqbroker ")[2].split()
            self.assertIn(example[0], [first[0] for first, _ in commands(root) if first], path)

    def test_help_of_a_nested_command(self) -> None:
        self.assertIn("--maxRows", mqbroker("help", "queue", "stat").out)
        self.assertEqual(mqbroker("help", "queue", "nonsense").status, 2)

    def test_an_unknown_command_names_the_nearest(self) -> None:
        result = mqbroker("qeue")
        self.assertEqual(result.status, 2)
        self.assertIn("Did you mean 'queue'?", result.err)

    def test_unknown_option(self) -> None:
        self.assertEqual(mqbroker("queue", "stat", "--nonsense").status, 2)

    def test_completion_scripts(self) -> None:
        for shell in ("bash", "zsh", "fish"):
            result = mqbroker("completion", shell)
            self.assertEqual(result.status, 0)
            self.assertIn("_MQBROKER_COMPLETE", result.out)


class MaskTests(SynchronousTestCase):
    def test_two_way_as_artemis_prints_it(self) -> None:
        self.assertEqual(mqbroker("mask", "secret").out, "result: -41e444c3ed07d6dd\n")
        self.assertEqual(mqbroker("mask", "--key", "abc", "secret").out, "result: -79c903ab75df949e\n")

    def test_a_hash_verifies(self) -> None:
        from mqbroker.config.masking import verify_password, wrap

        result = mqbroker("mask", "--hash", "--json", "secret")
        text = json.loads(result.out)["result"]
        self.assertTrue(verify_password("secret", wrap(text)))
        self.assertNotEqual(text, json.loads(mqbroker("mask", "--hash", "--json", "secret").out)["result"])

    def test_a_hash_has_no_key(self) -> None:
        self.assertEqual(mqbroker("mask", "--hash", "--key", "k", "secret").status, 2)

    def test_the_codec_of_an_instance(self) -> None:
        etc = Path(self.mktemp()) / "etc"
        etc.mkdir(parents=True)
        self.assertEqual(mqbroker("mask", "--password-codec", "--instance", str(etc.parent), "secret").status, 2)
        codec = "org.apache.activemq.artemis.utils.DefaultSensitiveStringCodec;key=abc"
        (etc / "broker.xml").write_text(f'<core xmlns="urn:activemq:core"><password-codec>{codec}</password-codec></core>')
        result = mqbroker("mask", "--password-codec", "--instance", str(etc.parent), "secret")
        self.assertEqual(result.out, "result: -79c903ab75df949e\n", result.err)


class ConnectionTests(SynchronousTestCase):
    def url_of(self, text: str, name: str = "artemis") -> str | None:
        file = Path(self.mktemp())
        file.write_text(text)
        return acceptor_url(file, name)

    def test_the_acceptor_of_the_instance(self) -> None:
        xml = '<c xmlns="urn:activemq:core"><acceptor name="artemis">tcp://0.0.0.0:7777?protocols=CORE</acceptor></c>'
        self.assertEqual(self.url_of(xml), "tcp://localhost:7777")
        self.assertIsNone(self.url_of(xml, "other"))
        self.assertEqual(
            self.url_of(xml.replace("0.0.0.0", "10.1.2.3").replace("protocols", "sslEnabled=true;p")), "tcp://10.1.2.3:7777?sslEnabled=true"
        )

    def test_what_cannot_be_read_counts_as_none(self) -> None:
        self.assertIsNone(self.url_of("no xml"))
        self.assertIsNone(acceptor_url(Path("no such file"), "artemis"))

    def test_without_instance_the_default(self) -> None:
        options = ConnectionOptions(None, "artemis", None, None, None, True, False, None)
        self.assertEqual(broker_url(options), "tcp://localhost:61616")

    def test_a_broker_that_is_not_there(self) -> None:
        result = mqbroker("queue", "stat", "--url", "tcp://127.0.0.1:1")
        self.assertEqual(result.status, 3)
        self.assertTrue(result.err.startswith("Connection failed::"), result.err)

    def test_a_user_without_a_password_is_asked_for_it_alone(self) -> None:
        from mqclient.jms import JMSSecurityException

        connection, asked = mock.Mock(), []
        factory = mock.Mock()
        factory.create_connection.side_effect = [JMSSecurityException("AMQ229031: Unable to validate user"), connection]
        options = ConnectionOptions("tcp://127.0.0.1:1", "artemis", "alice", None, None, False, False, None, quiet=True)

        def prompt(text: str, **_: object) -> str:
            asked.append(text)
            return "pw"

        terminal = mock.Mock()
        terminal.isatty.return_value = True
        with (
            mock.patch("mqclient.jms.ConnectionFactory", return_value=factory),
            mock.patch("sys.stdin", terminal),
            mock.patch("click.prompt", prompt),
            connected(options) as opened,
        ):
            self.assertIs(opened, connection)
        self.assertEqual(asked, ["--password"])
        self.assertEqual(factory.create_connection.call_args_list[-1].args, ("alice", "pw"))

    def test_a_bad_url(self) -> None:
        self.assertEqual(mqbroker("queue", "stat", "--url", "nonsense").status, 3)


class QueueMessagesTests(SynchronousTestCase):
    def run_with(self, broker: FakeManagement, *arguments: str):  # type: ignore[no-untyped-def]
        with mock.patch("mqbroker.cli.queues.queue_messages.management", broker.opened):
            return mqbroker("queue", *arguments)

    def test_dead_letters_are_sent_back_and_those_that_stay_are_counted(self) -> None:
        broker = FakeManagement(retryMessages=3, countMessages=1)
        result = self.run_with(broker, "retry-messages", "--name", "DLQ", "--filter", "n = 1")
        self.assertEqual(result.status, 0, result.err)
        self.assertEqual(broker.asked[0], ("queue.DLQ", "retryMessages", "n = 1"))
        self.assertEqual(result.out.splitlines()[0], "3 messages of queue DLQ sent back.")
        self.assertIn("1 message still there", result.out)

    def test_without_a_filter_an_artemis_can_do_it_too(self) -> None:
        broker = FakeManagement(retryMessages=1, countMessages=0)
        self.assertEqual(self.run_with(broker, "retry-messages", "--name", "DLQ").out, "1 message of queue DLQ sent back.\n")
        self.assertEqual(broker.asked[0], ("queue.DLQ", "retryMessages"))

    def test_a_dry_run_says_where_dead_letters_came_from_and_changes_nothing(self) -> None:
        broker = FakeManagement(countMessages='{"orders": 3, "bills": 1, "null": 2}')
        result = self.run_with(broker, "retry-messages", "--name", "DLQ", "--dry-run")
        self.assertEqual(
            result.out.splitlines(),
            [
                "1 message of queue DLQ would be sent back to bills.",
                "3 messages of queue DLQ would be sent back to orders.",
                "2 messages of queue DLQ without a way back.",
            ],
        )
        self.assertEqual(broker.asked, [("queue.DLQ", "countMessages", "", "_AMQ_ORIG_ADDRESS")])
        empty = FakeManagement(countMessages="{}")
        self.assertIn("0 messages", self.run_with(empty, "retry-messages", "--name", "DLQ", "--dry-run").out)

    def test_move(self) -> None:
        broker = FakeManagement(moveMessages=2, countMessages=5)
        move = ("move-messages", "--name", "a", "--to", "b")
        self.assertEqual(self.run_with(broker, *move, "--dry-run").out, "5 messages of queue a would be moved to b.\n")
        self.assertEqual(self.run_with(broker, *move).out, "2 messages of queue a moved to b.\n")
        self.assertEqual(broker.asked, [("queue.a", "countMessages", ""), ("queue.a", "moveMessages", "", "b")])
        self.assertEqual(self.run_with(broker, "move-messages", "--name", "a").status, 2)

    def test_remove_needs_a_filter(self) -> None:
        broker = FakeManagement(removeMessages=2, countMessages=5)
        remove = ("remove-messages", "--name", "a")
        self.assertEqual(self.run_with(broker, *remove).status, 2)
        self.assertEqual(self.run_with(broker, *remove, "--filter", "x = 1", "--dry-run").out, "5 messages of queue a would be deleted.\n")
        self.assertEqual(self.run_with(broker, *remove, "--filter", "x = 1").out, "2 messages of queue a deleted.\n")
        self.assertEqual(broker.asked, [("queue.a", "countMessages", "x = 1"), ("queue.a", "removeMessages", "x = 1")])

    def test_the_reason_of_a_refusal_is_told(self) -> None:
        broker = FakeManagement(retryMessages=ManagementError("AMQ229069: no operation"))
        result = self.run_with(broker, "retry-messages", "--name", "DLQ")
        self.assertEqual((result.status, result.err), (1, "Failed to retry messages of queue DLQ. Reason: AMQ229069: no operation\n"))


class QueueTests(SynchronousTestCase):
    def run_with(self, broker: FakeManagement, *arguments: str):  # type: ignore[no-untyped-def]
        module = "mqbroker.cli.queues.queue_stat" if arguments[1] == "stat" else f"mqbroker.cli.queues.{arguments[0]}"
        with mock.patch(f"{module}.management", broker.opened):
            return mqbroker(*arguments)

    def test_create_sends_what_was_given(self) -> None:
        broker = FakeManagement(createQueue='{"name":"q","address":"a","routing-type":"ANYCAST","durable":true}')
        result = self.run_with(broker, "queue", "create", "--name", "q", "--address", "a", "--anycast", "--durable", "--max-consumers", "3")
        self.assertTrue(
            result.out.startswith("Queue [name=q, address=a, routingType=ANYCAST, durable=true, purgeOnNoConsumers="), result.out
        )
        self.assertTrue(result.out.endswith("] created successfully.\n"), result.out)
        resource, operation, text = broker.asked[0]
        self.assertEqual((resource, operation), ("broker", "createQueue"))
        self.assertEqual(
            json.loads(str(text)),
            {"name": "q", "address": "a", "routing-type": "ANYCAST", "durable": True, "max-consumers": 3}
            | {"purge-on-no-consumers": False, "auto-create-address": False},
        )

    def test_update_sends_only_what_was_given(self) -> None:
        broker = FakeManagement()
        self.run_with(broker, "queue", "update", "--name", "q", "--preserve-on-no-consumers")
        self.assertEqual(json.loads(str(broker.asked[0][2])), {"name": "q", "purge-on-no-consumers": False})

    def test_a_refused_change_is_told_as_by_artemis(self) -> None:
        broker = FakeManagement(updateQueue=ManagementError("AMQ229017: Queue q does not exist"))
        result = self.run_with(broker, "queue", "update", "--name", "q", "--max-consumers", "3")
        self.assertEqual((result.status, result.err), (1, "Failed to update q. Reason: AMQ229017: Queue q does not exist\n"))

    def test_a_refusal_is_a_failure(self) -> None:
        broker = FakeManagement(destroyQueue=ManagementError("AMQ229017: Queue q does not exist"))
        result = self.run_with(broker, "queue", "delete", "--name", "q")
        self.assertEqual((result.status, result.err), (1, "Failed to delete queue q. Reason: AMQ229017: Queue q does not exist\n"))

    def test_a_name_is_needed_where_nobody_can_be_asked(self) -> None:
        self.assertEqual(self.run_with(FakeManagement(), "queue", "purge").status, 2)

    def test_anycast_and_multicast_exclude_each_other(self) -> None:
        self.assertEqual(self.run_with(FakeManagement(), "queue", "create", "--name", "q", "--anycast", "--multicast").status, 2)

    def queues(self, *names: str) -> str:
        return json.dumps({"data": [{"name": name, "address": name, "messageCount": "1"} for name in names], "count": len(names)})

    def test_stat_leaves_out_the_queues_of_management(self) -> None:
        broker = FakeManagement(listQueues=self.queues("a", FakeManagement.reply_queue, "activemq.management.x", "b"))
        result = self.run_with(broker, "queue", "stat", "--json")
        self.assertEqual([entry["name"] for entry in json.loads(result.out)["data"]], ["a", "b"])
        self.assertEqual(json.loads(result.out)["count"], 2)
        result = self.run_with(broker, "queue", "stat", "--json", "--include-management")
        self.assertEqual([entry["name"] for entry in json.loads(result.out)["data"]], ["a", "activemq.management.x", "b"])

    def test_stat_says_when_there_are_more(self) -> None:
        result = self.run_with(FakeManagement(listQueues=self.queues("a", "b", "c")), "queue", "stat", "--maxRows", "2")
        self.assertIn("WARNING: the displayed queues are 2/3, set maxRows to display more queues.", result.out)

    def test_stat_filters(self) -> None:
        broker = FakeManagement(listQueues=self.queues())
        self.run_with(broker, "queue", "stat", "--field", "MESSAGE_COUNT", "--operation", "GREATER_THAN", "--value", "0")
        asked = json.loads(str(broker.asked[0][2]))
        self.assertEqual((asked["field"], asked["operation"], asked["value"]), ("messageCount", "GREATER_THAN", "0"))
        self.assertEqual(self.run_with(broker, "queue", "stat", "--field", "NAME").status, 2)
        self.assertEqual(self.run_with(broker, "queue", "stat", "--field", "NAME", "--queueName", "x").status, 2)

    def test_addresses(self) -> None:
        broker = FakeManagement(listAddresses=f"a\n{FakeManagement.reply_queue}\nb", createAddress="Address [name=c]")
        self.assertEqual(self.run_with(broker, "address", "show").out, "a\nb\n")
        self.assertEqual(self.run_with(broker, "address", "show", "--anycast").out, "a\nb\n")
        result = self.run_with(broker, "address", "create", "--name", "c", "--anycast", "--multicast")
        self.assertEqual(result.out, "Address [name=c] created successfully.\n")
        self.assertEqual(broker.asked[-1], ("broker", "createAddress", "c", "ANYCAST,MULTICAST"))
        self.assertEqual(self.run_with(broker, "address", "update", "--name", "c").status, 2)

    def test_users(self) -> None:
        broker = FakeManagement(listUser='[{"username":"bob","roles":["amq","x"]}]')
        result = self.run_with(broker, "user", "list")
        self.assertEqual(result.out, '--- "user"(roles) ---\n"bob"(amq,x)\n\n Total: 1\n')
        self.assertEqual(self.run_with(broker, "user", "list", "--role", "amq").out, result.out)
        self.run_with(broker, "user", "add", "--user-command-user", "eve", "--user-command-password", "p", "--role", "amq")
        self.assertEqual(broker.asked[-1], ("broker", "addUser", "eve", "p", "amq", False))


class CheckTests(SynchronousTestCase):
    def failing(self) -> None:
        raise CheckFailed("no")

    def test_the_first_failure_ends_the_checks(self) -> None:
        ran: list[int] = []
        checks = [Check("a", self.failing), Check("b", lambda: ran.append(1))]
        with self.assertRaises(CommandError) as caught:
            run_checks("T", checks, fail_at_end=False, timeout=1000, as_json=True)
        self.assertIn("failure: no", str(caught.exception))
        self.assertEqual(ran, [])
        self.assertRaises(CommandError, run_checks, "T", checks, fail_at_end=True, timeout=1000, as_json=True)
        self.assertEqual(ran, [1])


class ConfigTests(SynchronousTestCase):
    def test_a_misspelt_element(self) -> None:
        file = Path(self.mktemp())
        file.write_text('<configuration xmlns="urn:activemq">\n<core xmlns="urn:activemq:core">\n<nam>x</nam></core></configuration>')
        result = mqbroker("check", "config", str(file))
        self.assertEqual(result.status, 1)
        self.assertIn(f"{file}:3:", result.err)
        answer = json.loads(mqbroker("check", "config", str(file), "--json").out)
        self.assertEqual((answer["valid"], answer["errors"][0]["line"]), (False, 3))

    def check(self, core: str) -> str:
        file = Path(self.mktemp())
        file.mkdir()
        path = file / "broker.xml"
        path.write_text(f'<configuration xmlns="urn:activemq"><core xmlns="urn:activemq:core">\n{core}\n</core></configuration>')
        result = mqbroker("check", "config", str(path))
        self.assertEqual(result.status, 1)
        return result.err.replace(str(path), "broker.xml")

    def test_a_filter_that_cannot_be_read(self) -> None:
        queue = '<queue name="q">\n<filter string="a ="/></queue>'
        text = self.check(f'<addresses><address name="a"><anycast>{queue}</anycast></address></addresses>')
        self.assertIn("ERROR broker.xml:3: filter: AMQ229020: Invalid filter: a = (at character 4", text)

    def test_an_acceptor_with_a_login_domain_that_is_not_there(self) -> None:
        text = self.check('<acceptors><acceptor name="a">tcp://127.0.0.1:0?securityDomain=nope</acceptor></acceptors>')
        self.assertIn("acceptor a: securityDomain=nope is not an entry of login.config", text)

    def test_all_that_a_start_would_refuse(self) -> None:
        """Stores that cannot be opened, a metrics port that is none, two acceptors on one port, a file that includes one outside."""
        folder = Path(self.mktemp())
        folder.mkdir()
        (folder / "bad.pem").write_text("no key")
        text = self.check(
            "<acceptors>"
            f'<acceptor name="a">tcp://127.0.0.1:7001?sslEnabled=true;keyStorePath={folder.absolute()}/bad.pem</acceptor>'
            f'<acceptor name="b">tcp://127.0.0.1:7001?sslEnabled=true;keyStorePath={folder.absolute()}/none.p12</acceptor>'
            '<acceptor name="c">tcp://127.0.0.1:7002?sslEnabled=true;keyStorePath=none.p12;protocols=AMQP</acceptor>'
            '<acceptor name="d">vm://x</acceptor></acceptors>'
            "<security-enabled>false</security-enabled>"
            '<metrics><plugin class-name="a.ArtemisPrometheusMetricsPlugin"><property key="port" value="70000"/></plugin></metrics>'
        )
        self.assertIn(f"acceptor a: keyStorePath={folder.absolute()}/bad.pem cannot be used", text)
        self.assertIn(f"acceptor b: keyStorePath={folder.absolute()}/none.p12 cannot be read: No such file", text)
        self.assertIn("acceptor b: acceptor a listens on 127.0.0.1:7001 already", text)
        self.assertIn("acceptor d: vm://x has no number", text)
        self.assertIn("port=70000 is not a port", text)
        self.assertNotIn("acceptor c", text)

    def test_security_without_logins(self) -> None:
        self.assertIn("there is no entry 'activemq' in a login.config", self.check("<name>x</name>"))

    def test_the_files_of_logins(self) -> None:
        folder = Path(self.mktemp())
        self.assertEqual(mqbroker("create", str(folder), "--silent").status, 0)
        etc = folder / "etc"

        def errors() -> str:
            result = mqbroker("check", "config", "--instance", str(folder))
            self.assertEqual(result.status, 1, result.out)
            return result.err

        (etc / "artemis-users.properties").unlink()
        self.assertIn("artemis-users.properties cannot be read: No such file", errors())
        (etc / "artemis-users.properties").write_text("a = \\u12")
        self.assertIn("artemis-users.properties: ", errors())
        good = (etc / "login.config").read_text()
        (etc / "login.config").write_text(good.replace("PropertiesLoginModule", "LDAPLoginModule"))
        self.assertIn("LDAPLoginModule is not supported", errors())
        (etc / "login.config").write_text("activemq {")
        self.assertIn("login.config", errors())
        (etc / "login.config").unlink()
        self.assertIn("login.config: cannot be read, and users log in by its entry activemq", errors())

    def test_a_properties_file_on_an_instance(self) -> None:
        folder = Path(self.mktemp())
        self.assertEqual(mqbroker("create", str(folder), "--silent").status, 0)
        properties = folder / "more.properties"
        properties.write_text("globalMaxSiz=10M\n")
        result = mqbroker("check", "config", "--instance", str(folder), "--properties", str(properties))
        self.assertEqual(result.status, 1)
        self.assertIn("did you mean globalMaxSize?", result.err)
