"""The databases that an instance's properties name, for the commands that manage them."""

from __future__ import annotations

import tempfile
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from tests.unit.cli.runner import Result, mqbroker

JDBC = "imq.cluster.sharecc.persist.jdbc"


class TargetTests(SynchronousTestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.varhome = Path(folder.name)

    def create(self, *options: str, **environment: str) -> Result:
        return mqbroker("imq", "dbmgr", "create", "sharecc_tbl", "-varhome", str(self.varhome), *options, **environment)

    def refused(self, *options: str) -> str:
        result = self.create(*options)
        self.assertEqual(result.status, 1)
        return result.err

    def test_definitions_need_no_instance(self) -> None:
        url = f"-D{JDBC}.sqlite.opendburl=jdbc:sqlite:{self.varhome}/x.db"
        result = self.create("-Dimq.cluster.clusterid=c", f"-D{JDBC}.dbVendor=sqlite", url)
        self.assertEqual((result.status, result.err), (0, ""))
        self.assertTrue((self.varhome / "x.db").exists())

    def test_the_cluster_file_and_the_environment(self) -> None:
        file = self.varhome / "cluster.properties"
        file.write_text(f"imq.cluster.clusterid=c\n{JDBC}.dbVendor=sqlite\n{JDBC}.sqlite.opendburl=jdbc:sqlite:${{WHERE}}\n")
        result = self.create(f"-Dimq.cluster.url=file:{file}", WHERE=f"{self.varhome}/y.db")
        self.assertEqual((result.status, result.err), (0, ""))
        self.assertTrue((self.varhome / "y.db").exists())

    def test_what_is_missing_or_wrong_is_named(self) -> None:
        self.assertIn("needs imq.cluster.clusterid", self.refused(f"-D{JDBC}.dbVendor=sqlite"))
        self.assertIn("imq.cluster.clustrid is not known", self.refused("-Dimq.cluster.clustrid=c"))
        self.assertIn("-D=c: expected -Dname=value", self.refused("-D=c"))
        self.assertIn("-name b/1: expected letters", self.refused("-name", "b/1"))

    def test_user_and_password_of_the_command_come_first(self) -> None:
        passfile = self.varhome / "passfile"
        passfile.write_text(f"{JDBC}.postgresql.password=filed\n")
        url = f"-D{JDBC}.postgresql.opendburl=jdbc:postgresql://127.0.0.1:1/mq"
        options = ("-Dimq.cluster.clusterid=c", f"-D{JDBC}.dbVendor=postgresql", f"-D{JDBC}.postgresql.needpassword=true", url)
        self.assertIn("expected imq.cluster.sharecc.persist.jdbc.postgresql.password", self.refused(*options))
        text = self.refused(*options, "-passfile", str(passfile), "-u", "me", "-p", "secret")
        self.assertIn("postgresql://127.0.0.1:1/mq", text)
        self.assertNotIn("secret", text)
        self.assertIn("postgresql://127.0.0.1:1/mq", self.refused(*options, "-u", "me", "-p", "secret"))
