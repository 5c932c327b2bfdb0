from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.process.mounts import nfs_remarks, read_mounts

MOUNTS = """\
/dev/vda / ext4 rw,relatime 0 0
filer:/a /data nfs4 rw,relatime,timeo=600,retrans=2 0 0
filer:/b /data/good\\040one nfs rw,sync,noac,soft,lookupcache=none,timeo=50,retrans=1 0 0
filer:/c /later nfs rw 0 0
/dev/vdb /later ext4 rw 0 0
broken
"""


class MountTests(SynchronousTestCase):
    def test_missing_options_and_the_time_of_detection_are_told(self) -> None:
        options, time = nfs_remarks("/data/broker/journal", MOUNTS)
        self.assertIn("/data: a shared folder on NFS needs the mount options sync,noac,soft,lookupcache=none", options)
        self.assertIn("noticed after 120 s", time)

    def test_a_mount_as_the_manual_asks_for_is_only_timed(self) -> None:
        (time,) = nfs_remarks("/data/good one/journal", MOUNTS)
        self.assertIn("/data/good one: a server that does not answer is noticed after 5 s", time)

    def test_other_file_systems_are_not_judged(self) -> None:
        for folder in ("/srv/journal", "/database", "/later/journal"):
            self.assertEqual(nfs_remarks(folder, MOUNTS), [])
        self.assertEqual(nfs_remarks("/srv", ""), [])

    def test_the_mounts_of_this_machine_can_be_read(self) -> None:
        self.assertEqual(nfs_remarks("/", read_mounts()), [])
