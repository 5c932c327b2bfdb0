"""Roots: which paths are mirrored, and under which names."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.storage.errors import StorageError
from mqbroker.storage.mirror.roots import Roots, check_path
from tests.unit.storage.mirror.support import ROOTS
from tests.unit.storage.support import settings


class RootsTests(SynchronousTestCase):
    def test_a_path_has_its_name_on_both_sides(self) -> None:
        for path, name in (
            ("/data/journal", "journal"),
            ("/data/journal/", "journal"),
            ("/data/journal/mqbroker-data-00000001.mqj", "journal/mqbroker-data-00000001.mqj"),
            ("/data/large-messages/17.msg", "large-messages/17.msg"),
            ("/data/paging/server.orders-0123456789abcdef/000000017.page", "paging/server.orders-0123456789abcdef/000000017.page"),
        ):
            self.assertEqual(ROOTS.mirrored(path), name)
            self.assertEqual(ROOTS.path(name), path.rstrip("/"))

    def test_what_belongs_to_a_broker_alone_is_not_mirrored(self) -> None:
        for path in (
            "/data/journal/server.lock",
            "/data/journal/serverlock.1",
            "/data/journal/server.epoch",
            "/data/journal/server.activation.sequence",
            "/data/paging/oldreplica.2/q-1/000000001.page",
            "/data/journal/oldreplica.12",
            "/data/journal-2/mqbroker-data-00000001.mqj",
            "/data",
        ):
            self.assertIs(ROOTS.mirrored(path), None, path)

    def test_a_path_from_elsewhere_leads_nowhere_else(self) -> None:
        for path in (
            "",
            "/etc/passwd",
            "etc/passwd",
            "journal/",
            "journal/..",
            "journal/../x",
            "paging/../../x",
            "journal/a/b",
            "paging/a/b/c",
            "journal/a\0b",
            "journal/a\\b",
            "journal//a",
            "journal/" + 128 * "ä",
            "journal/server.lock",
            "bindings/serverlock.1",
            "paging/oldreplica.1/a",
        ):
            self.assertRaises(ValueError, check_path, path)
            self.assertRaises(ValueError, ROOTS.path, path)

    def test_a_root_that_this_broker_has_not_is_named(self) -> None:
        roots = Roots.of(settings(paging_directory=None))
        self.assertEqual(list(roots), ["bindings", "journal", "large-messages"])
        self.assertIn("no folder 'paging'", str(self.assertRaises(ValueError, roots.path, "paging/a/b")))
        self.assertIn("paging", list(Roots.of(settings())))

    def test_folders_inside_each_other_are_refused(self) -> None:
        for inner in ("/data/a", "/data/a/large"):
            error = self.assertRaises(StorageError, Roots, {"journal": "/data/a/", "large-messages": inner})
            self.assertIn("each has to be apart", str(error))
        Roots({"journal": "/data/a", "large-messages": "/data/a-large"})
