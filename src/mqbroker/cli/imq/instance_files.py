"""The texts of a new instance of Open Message Queue: an ordinary instance folder with OpenMQ's users and ``props/config.properties``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from xml.sax.saxutils import escape

from mqbroker.cli.start.instance_files import READABLE, SECRET, FrameSettings, frame_files
from mqbroker.config.imq.files import PROPERTIES_FILE
from mqbroker.config.imq.instance import USERS
from mqbroker.config.masking import hash_password

ADMIN, GUEST = USERS

_CLIENTS = (
    "createNonDurableQueue",
    "deleteNonDurableQueue",
    "createDurableQueue",
    "deleteDurableQueue",
    "createAddress",
    "consume",
    "browse",
    "send",
)
"""Permissions of every user; administrators alone may delete addresses, and manage the broker."""
_ADMINISTRATORS = ("deleteAddress", "manage")


def imq_instance_files(folder: Path, python: str, salt: Callable[[], bytes]) -> Iterator[tuple[str, str, int]]:
    """Path in the instance, text and permission bits of every file.  ``salt`` gives 32 random bytes each time."""
    hashed = {name: hash_password(name, salt()) for name in USERS}
    yield "etc/broker.xml", _broker_xml(folder.name), SECRET
    users = "".join(f"{name} = {text}\n" for name, text in hashed.items())
    yield "etc/artemis-users.properties", f"# name = password, or name = ENC(hash) of `mqbroker mask --hash`\n{users}", SECRET
    roles = "".join(f"{name} = {name}\n" for name in USERS)
    yield "etc/artemis-roles.properties", f"# role = users, separated by commas without blanks\n{roles}", READABLE
    yield PROPERTIES_FILE, _PROPERTIES, SECRET
    frame = FrameSettings(folder=folder, data="data", user=ADMIN, role=ADMIN, anonymous=False, security_manager="jaas", python=python)
    yield from frame_files(frame, hashed[ADMIN])


_PROPERTIES = """# The properties of this instance.  They hide those of the cluster file, so what all brokers share is better written there.
#imq.cluster.url=file:/etc/imq/cluster.properties
"""


def _broker_xml(name: str) -> str:
    permissions = [(kind, f"{ADMIN},{GUEST}") for kind in _CLIENTS] + [(kind, ADMIN) for kind in _ADMINISTRATORS]
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
