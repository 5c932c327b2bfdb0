"""Replication in broker.xml: what each form of the chapter on high availability means, or why it stops the start."""

from __future__ import annotations

from mqbroker.config.model.cluster import LockManagerConfiguration, ReplicationConfiguration
from mqbroker.config.parse import parse_configuration
from tests.unit.config.broker_xml.test_cluster_assembly import connection, connections
from tests.unit.config.test_parse import ConfigurationTestCase, document

CLUSTER = connections(connection(""))
MANAGER = """<manager>
<class-name>org.foo.MyQuorumVotingPlugin</class-name>
<properties>
<property key="property1" value="value1"/>
<property key="property2" value="value2"/>
</properties>
</manager>"""


def policy(inside: str) -> str:
    return f"{CLUSTER}<ha-policy><replication>{inside}</replication></ha-policy>"


class ReplicationTests(ConfigurationTestCase):
    def test_what_the_chapter_shows(self) -> None:
        for inside, expected in (
            ("<primary/>", ReplicationConfiguration(False)),
            ("<backup/>", ReplicationConfiguration(True)),
            ("<backup><allow-failback>true</allow-failback></backup>", ReplicationConfiguration(True, allow_failback=True)),
            (
                "<primary><check-for-active-server>true</check-for-active-server></primary>",
                ReplicationConfiguration(False, check_for_active_server=True),
            ),
            ("<primary><group-name>fish</group-name></primary>", ReplicationConfiguration(False, "fish")),
            ("<backup><group-name>bird</group-name></backup>", ReplicationConfiguration(True, "bird")),
            ("<primary><group-name/><cluster-name/></primary>", ReplicationConfiguration(False)),
            ("<backup><group-name></group-name><cluster-name/></backup>", ReplicationConfiguration(True)),
        ):
            with self.subTest(inside=inside):
                self.assertEqual(self.configured(policy(inside)).replication, expected)

    def test_overriding_properties(self) -> None:
        both = (
            "groupName=g clusterName=c maxSavedReplicatedJournalsSize=3 initialReplicationSyncTimeout=1 voteOnReplicationFailure=false "
            "quorumSize=2 voteRetryWait=4 quorumVoteWait=5 retryReplicationWait=6"
        )
        for role, own, expected in (
            ("PRIMARY", "checkForActiveServer=true", ReplicationConfiguration(False, "g", "c", 3, True, 1, False, 2, 4, 5, 6)),
            (
                "BACKUP",
                "allowFailBack=true restartBackup=false",
                ReplicationConfiguration(True, "g", "c", 3, None, 1, False, 2, 4, 5, 6, True, False),
            ),
        ):
            lines = [f".{each}" for each in f"{both} {own}".split()]
            entries = (f"HAPolicyConfiguration{line}" for line in [f"=REPLICATION_{role}_QUORUM_VOTING", *lines])
            values = {f"brokerconfig.{entry.partition('=')[0]}": entry.partition("=")[2] for entry in entries}
            found = parse_configuration(document(CLUSTER), substitutions=values).configuration
            self.assertEqual((found.replication, found.shared_store), (expected, None))

    def test_every_element(self) -> None:
        both = (
            "<group-name>g</group-name><cluster-name>c</cluster-name>"
            "<max-saved-replicated-journals-size>-1</max-saved-replicated-journals-size>"
            "<initial-replication-sync-timeout>1</initial-replication-sync-timeout>"
            "<vote-on-replication-failure>false</vote-on-replication-failure><quorum-size>2</quorum-size>"
            "<vote-retry-wait>4</vote-retry-wait><quorum-vote-wait>5</quorum-vote-wait><retry-replication-wait>6</retry-replication-wait>"
        )
        check = "<check-for-active-server>false</check-for-active-server>"
        found = self.configured(policy(f"<primary>{both}{check}</primary>")).replication
        self.assertEqual(found, ReplicationConfiguration(False, "g", "c", -1, False, 1, False, 2, 4, 5, 6))
        own = "<allow-failback>true</allow-failback><restart-backup>false</restart-backup><failback-delay>9</failback-delay>"
        found = self.configured(policy(f"<backup>{both}{own}</backup>")).replication
        self.assertEqual(found, ReplicationConfiguration(True, "g", "c", -1, None, 1, False, 2, 4, 5, 6, True, False))

    def test_what_has_no_effect_is_named(self) -> None:
        for role in ("primary", "backup"):
            for retries in ("3", "-1"):
                loaded = self.load(policy(f"<{role}><vote-retries>{retries}</vote-retries></{role}>"))
                self.assertIn(f"<vote-retries> ({retries}) has no effect: a broker asks until it has a proof", str(loaded.warnings[0]))
            self.assertEqual(self.load(policy(f"<{role}><vote-retries>12</vote-retries></{role}>")).warnings, [])

    def test_old_names(self) -> None:
        for old, new in (("master", "primary"), ("slave", "backup")):
            loaded = self.load(policy(f"<{old}/>"))
            self.assertEqual(loaded.configuration.replication, ReplicationConfiguration(new == "backup"))
            self.assertIn(f"<{old}> is an old element: write <{new}>", str(loaded.warnings[0]))
        loaded = self.load(policy("<primary><check-for-live-server>true</check-for-live-server></primary>"))
        self.assertEqual(loaded.configuration.replication, ReplicationConfiguration(False, check_for_active_server=True))
        self.assertIn("write check-for-active-server", str(loaded.warnings[0]))

    def test_what_is_refused_by_name(self) -> None:
        for inside, expected in (
            (f"<master>{MANAGER}</master>", "<manager> cannot be used: under its old name"),
            (f"{MANAGER}<slave/>", "<manager> cannot be used: under its old name"),
            (f"{MANAGER}<primary>{MANAGER}</primary>", "there is a second <manager>: expected one, in the role or beside it"),
            (MANAGER, "<replication> holds nothing: expected primary or backup"),
            (f"<primary>{MANAGER.replace('key=', 'name=', 1)}</primary>", "name"),
            (
                f"<backup>{MANAGER}<scale-down/></backup>",
                "<scale-down> of a backup cannot be used with a <manager>: the lock manager says whose data are newest, and does not know",
            ),
            ("<primary><coordination-id>peer</coordination-id></primary>", "<coordination-id> needs a <manager>"),
            ("<master><coordination-id>peer</coordination-id></master>", "<coordination-id> cannot be used: under its old name"),
            (f"<primary>{MANAGER}<coordination-id>a/b</coordination-id></primary>", "expected a text without a slash"),
            ("<primary><scale-down/></primary>", "<scale-down> is not an element of <primary>"),
            ("<primary><allow-failback>true</allow-failback></primary>", "<allow-failback> is not an element of <primary>"),
            ("", "<replication> holds nothing: expected primary or backup"),
            ("<primary/><backup/>", "<replication> holds primary, backup: expected primary or backup"),
            ("<primary><quorum-size>0</quorum-size></primary>", "<quorum-size>: '0' is not valid"),
            (
                "<primary><initial-replication-sync-timeout>0</initial-replication-sync-timeout></primary>",
                "<initial-replication-sync-timeout>: '0' is not valid",
            ),
            (
                "<backup><max-saved-replicated-journals-size>-2</max-saved-replicated-journals-size></backup>",
                "<max-saved-replicated-journals-size>: '-2' is not valid",
            ),
            ("<backup><cluster-name>d</cluster-name></backup>", "replication: there is no cluster-connection d; expected: c"),
        ):
            with self.subTest(inside=inside):
                self.assertIn(expected, self.errors(policy(inside))[0])

    def test_a_lock_manager_in_the_role_or_beside_it(self) -> None:
        properties = {"property1": "value1", "property2": "value2"}
        manager = LockManagerConfiguration("org.foo.MyQuorumVotingPlugin", properties)
        for inside, backup in (
            (f"<primary>{MANAGER}</primary>", False),
            (f"<backup>{MANAGER}</backup>", True),
            (f"{MANAGER}<primary/>", False),
            (f"<backup/>{MANAGER}", True),
        ):
            loaded = self.load(policy(inside))
            self.assertEqual(loaded.configuration.replication, ReplicationConfiguration(backup, manager=manager))
            self.assertEqual([each for each in loaded.warnings if "manager" in str(each)], [])

    def test_settings_of_votes_have_no_effect_with_a_lock_manager(self) -> None:
        votes = "<quorum-size>2</quorum-size><check-for-active-server>true</check-for-active-server>"
        warnings = [str(each) for each in self.load(policy(f"{MANAGER}<primary>{votes}</primary>")).warnings]
        for name in ("quorum-size", "check-for-active-server"):
            self.assertTrue([each for each in warnings if f"<{name}> has no effect: with a <manager> nobody votes" in each], warnings)

    def test_what_replication_needs(self) -> None:
        alone = "<ha-policy><replication><primary/></replication></ha-policy>"
        self.assertIn("<replication> needs a cluster-connection", self.errors(alone)[0])
        memory = "<persistence-enabled>false</persistence-enabled>"
        self.assertIn("<replication> needs persistence-enabled", self.errors(memory + policy("<primary/>"))[0])
