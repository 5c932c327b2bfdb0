"""The table of properties is consistent, and has everything that the chapter on clusters names."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.config.imq.table import PROPERTIES, UPDATED_NAMES, accepted, find_property, is_secret
from mqbroker.config.schema.model import Support

CHAPTER = """
imq.cluster.url imq.cluster.hostname imq.cluster.port imq.cluster.transport imq.cluster.ha imq.cluster.clusterid imq.brokerid
imq.cluster.brokerlist imq.cluster.brokerlist.manual imq.cluster.masterbroker imq.cluster.dynamicChangeMasterBrokerEnabled
imq.cluster.nowaitForMasterBroker imq.cluster.nowaitForMasterBrokerTimeoutInSeconds imq.cluster.masterbroker.enforce
imq.cluster.nomasterbroker imq.cluster.sharecc.persist imq.cluster.sharecc.persistCreate imq.cluster.sharecc.persist.jdbc.dbVendor
imq.cluster.sharecc.persist.jdbc.mysql.user imq.cluster.ha.takeoverWaitTimeout imq.cluster.heartbeat.hostname imq.cluster.heartbeat.port
imq.cluster.heartbeat.interval imq.cluster.heartbeat.threshold imq.cluster.monitor.interval imq.cluster.monitor.threshold
imq.cluster.reaptime imq.cluster.takeover.delay.interval imq.cluster.maxTakeoverSessions imq.cluster.maxTakeoverSessionRetaintionTime
imq.cluster.locktimeout imq.cluster.waitReplyTimeout imq.cluster.waitInfoReplyTimeout imq.cluster.acktimeout
imq.cluster.changeMasterBrokerWaitTimeout imq.cluster.waitConnectionInitTimeout imq.cluster.ping.interval imq.cluster.shutdownTimeout
imq.cluster.consumerFlowLimit imq.cluster.pendingTransactionCheckInterval imq.cluster.enforceRemoteDestinationLimit
imq.cluster.prefetch.checkMsgRateAtCapacityRatio imq.cluster.prefetch.checkMsgRateAll imq.cluster.tcp.nodelay imq.cluster.ssl.inbufsz
imq.cluster.tcp.outbufsz imq.reconnect.interval imq.autocreate.queue imq.autocreate.topic imq.autocreate.reaptime
"""

REFERENCE = """
imq.admincreate.topic.sharedConsumerFlowLimit imq.autocreate.topic.sharedConsumerFlowLimit imq.audit.enabled imq.audit.bsm.disabled
imq.broker.adminDefinedRoles.count imq.broker.adminDefinedRoles.name0 imq.jmx.connector.activelist imq.jmx.connector.jmxrmi.useSSL
imq.jmx.rmiregistry.start imq.jmx.rmiregistry.use imq.jmx.rmiregistry.port imq.txn.reapInterval imq.txn.reapLimit
"""
"""Properties of the guide's reference that are about something else, and may stand in the same files."""


class TableTests(SynchronousTestCase):
    def test_the_chapter_is_there(self) -> None:
        self.assertEqual([name for name in CHAPTER.split() if find_property(name) is None], [])

    def test_what_else_the_guide_names_does_not_stop_the_start(self) -> None:
        for name in REFERENCE.split():
            found = find_property(name)
            self.assertTrue(found is not None and accepted(found), name)

    def test_what_is_not_honoured_has_a_reason(self) -> None:
        self.assertEqual([each.name for each in PROPERTIES if each.item.support is not Support.HONOURED and not each.item.reason], [])

    def test_names_are_there_once(self) -> None:
        names = [each.name for each in PROPERTIES]
        self.assertEqual(len(names), len(set(names)))

    def test_defaults_are_valid_and_no_refused_value(self) -> None:
        for each in PROPERTIES:
            if each.default:
                value = each.item.kind.convert(each.default)
                self.assertTrue(each.item.unless is None or value in each.item.unless, each.name)

    def test_an_exact_name_comes_before_a_family(self) -> None:
        exact, family = find_property("imq.portmapper.port"), find_property("imq.portmapper.sotimeout")
        assert exact is not None and family is not None
        self.assertEqual((accepted(exact), accepted(family)), (False, True))
        self.assertIsNone(find_property("imq.portmappr.port"))

    def test_what_may_be_updated(self) -> None:
        self.assertIn("imq.cluster.url", UPDATED_NAMES)
        self.assertNotIn("imq.cluster.masterbroker", UPDATED_NAMES)

    def test_passwords_are_secret(self) -> None:
        self.assertEqual((is_secret("imq.keystore.password"), is_secret("imq.hostname")), (True, False))
        url = "imq.persist.jdbc.opendburl"
        self.assertEqual((is_secret(url, "jdbc:postgresql://db/mq?user=u&password=p"), is_secret(url, "jdbc:sqlite:x")), (True, False))

    def test_files_that_openmq_has_written_are_accepted(self) -> None:
        for name in (
            "imq.instanceconfig.version",
            "imq.jmx.connector.activelist",
            "imq.audit.bsm.disabled",
            "imq.autocreate.topic.sharedConsumerFlowLimit",
            "imq.destination.expireDeliveredMessages",
            "imq.portunif.enabled",
            "imq.txn.reapLimit",
        ):
            entry = find_property(name)
            assert entry is not None, name
            self.assertEqual((entry.item.support, bool(entry.item.reason)), (Support.IGNORED, True), name)

    def test_the_attributes_of_update_bkr(self) -> None:
        """As imqcmd has them."""
        self.assertEqual(
            UPDATED_NAMES,
            (
                "imq.autocreate.destination.useDMQ",
                "imq.autocreate.queue",
                "imq.autocreate.queue.maxNumActiveConsumers",
                "imq.autocreate.queue.maxNumBackupConsumers",
                "imq.autocreate.topic",
                "imq.cluster.url",
                "imq.destination.DMQ.truncateBody",
                "imq.destination.logDeadMsgs",
                "imq.log.file.rolloverbytes",
                "imq.log.file.rolloversecs",
                "imq.log.level",
                "imq.message.max_size",
                "imq.portmapper.port",
                "imq.system.max_count",
                "imq.system.max_size",
            ),
        )
