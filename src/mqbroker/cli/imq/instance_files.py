"""The texts of a new instance of Open Message Queue: an ordinary instance folder with OpenMQ's users and ``props/config.properties``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from xml.sax.saxutils import escape

from mqbroker.cli.start.instance_files import PERMISSIONS, SECRET, FrameSettings, frame_files
from mqbroker.config.imq.files import PROPERTIES_FILE
from mqbroker.config.imq.instance import USERS
from mqbroker.config.masking import hash_password

ADMIN, GUEST = USERS

_ADMINISTRATORS = ("deleteAddress", "manage")
"""Permissions of administrators alone: they delete addresses, and manage the broker."""


def imq_instance_files(folder: Path, python: str, salt: Callable[[], bytes]) -> Iterator[tuple[str, str, int]]:
    """Path in the instance, text and permission bits of every file.  ``salt`` gives 32 random bytes each time."""
    yield "etc/broker.xml", _broker_xml(folder.name), SECRET
    yield PROPERTIES_FILE, _PROPERTIES, SECRET
    frame = FrameSettings(folder=folder, data="data", user=ADMIN, role=ADMIN, anonymous=False, security_manager="jaas", python=python)
    yield from frame_files(frame, {name: hash_password(name, salt()) for name in USERS}, {name: name for name in USERS})


_PROPERTIES = """# The properties of this instance.  They hide those of the cluster file, so what all brokers share is better written there.
#imq.cluster.url=file:/etc/imq/cluster.properties
"""


def _broker_xml(name: str) -> str:
    clients = [kind for kind in PERMISSIONS if kind not in _ADMINISTRATORS]
    permissions = [(kind, f"{ADMIN},{GUEST}") for kind in clients] + [(kind, ADMIN) for kind in _ADMINISTRATORS]
    listed = "\n".join(f'            <permission type="{kind}" roles="{roles}"/>' for kind, roles in permissions)
    return f"""<?xml version="1.0" encoding="UTF-8"?>
<!-- Security, settings of addresses, TLS and further acceptors; everything about the cluster is in {PROPERTIES_FILE}. -->
<configuration xmlns="urn:activemq" xmlns:xi="http://www.w3.org/2001/XInclude">
   <core xmlns="urn:activemq:core">
      <name>{escape(name)}</name>

      <!-- The same on all brokers of a cluster: brokers log in at each other with them.
      <cluster-user>cluster-admin</cluster-user>
      <cluster-password>change this</cluster-password>
      -->

      <paging-directory>data/paging</paging-directory>
      <bindings-directory>data/bindings</bindings-directory>
      <journal-directory>data/journal</journal-directory>
      <large-messages-directory>data/large-messages</large-messages-directory>
      <journal-type>NIO</journal-type>
      <max-disk-usage>90</max-disk-usage>

      <security-settings>
         <security-setting match="#">
{listed}
         </security-setting>
      </security-settings>
   </core>
</configuration>
"""
