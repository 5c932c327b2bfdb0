from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.process.mounts import nfs_mount, read_mounts

MOUNTS = """\
/dev/vda / ext4 rw,relatime 0 0
filer:/a /data nfs4 rw,relatime,timeo=600,retrans=2 0 0
filer:/b /data/good\\040one nfs rw,sync,noac,soft,lookupcache=none,timeo=50,retrans=1 0 0
filer:/c /later nfs rw 0 0
/dev/vdb /later ext4 rw 0 0
broken
"""


def remarks(folder: str) -> list[str]:
    found = nfs_mount(folder, MOUNTS)
    assert found is not None
    return found.remarks()


class MountTests(SynchronousTestCase):
    def test_missing_options_and_the_time_of_detection_are_told(self) -> None:
        options, time = remarks("/data/broker/journal")
        self.assertIn("/data: a shared folder on NFS needs the mount options sync,noac,soft,lookupcache=none", options)
        self.assertIn("noticed after 120 s", time)

    def test_a_mount_as_the_manual_asks_for_is_only_timed(self) -> None:
        (time,) = remarks("/data/good one/journal")
        self.assertIn("/data/good one: a server that does not answer is noticed after 5 s", time)

    def test_other_file_systems_are_not_judged(self) -> None:
        for folder in ("/srv/journal", "/database", "/later/journal"):
            self.assertIsNone(nfs_mount(folder, MOUNTS))
        self.assertIsNone(nfs_mount("/srv", ""))

    def test_options_that_keep_locks_on_one_machine_are_refused_and_named(self) -> None:
        for option in ("nolock", "local_lock=posix", "local_lock=all"):
            found = nfs_mount("/x", f"filer:/a /x nfs rw,sync,noac,soft,lookupcache=none,{option} 0 0")
            assert found is not None
            self.assertIn(f"/x: with its mount option {option} locks do not exclude", found.refusal() or "")
            self.assertIn("mount it without nolock, and with local_lock=none", found.refusal() or "")
        for options in ("rw", "rw,lock", "rw,local_lock=none", "rw,local_lock=flock"):
            found = nfs_mount("/x", f"filer:/a /x nfs4 {options} 0 0")
            assert found is not None
            self.assertIsNone(found.refusal())

    def test_a_mount_without_times(self) -> None:
        found = nfs_mount("/x", "filer:/a /x nfs4 sync,noac,soft,lookupcache=none,timeo=50 0 0")
        assert found is not None
        self.assertEqual((found.wait, found.remarks()), (None, []))

    def test_the_mounts_of_this_machine_can_be_read(self) -> None:
        self.assertIsNone(nfs_mount("/", read_mounts()))
