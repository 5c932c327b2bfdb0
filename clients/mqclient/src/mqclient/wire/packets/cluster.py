"""Packets between brokers on the cluster channel.

Source: ``protocol-spec/``, chapter "Cluster packets".
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from mqclient.wire.packets.base import (
    BOOL,
    CONNECTOR,
    I32,
    I64,
    NSSTR,
    NSTR,
    REST,
    SSTR,
    STR,
    TRANSPORT,
    FieldTable,
    Packet,
    register,
)
from mqclient.wire.primitives import TransportConfiguration

# --- cluster control --------------------------------------------------------------------------------------------------


@register
@dataclass(slots=True, eq=False, repr=False)
class ClusterConnect(Packet):
    TYPE: ClassVar[int] = 125
    NAME: ClassVar[str] = "CLUSTER_CONNECT"
    COUNTED: ClassVar[bool] = False
    FIELDS: ClassVar[FieldTable] = (("cluster_user", STR), ("cluster_password", STR))
    cluster_user: str
    cluster_password: str = field(repr=False)


@register
@dataclass(slots=True, eq=False, repr=False)
class ClusterConnectReply(Packet):
    TYPE: ClassVar[int] = 126
    NAME: ClassVar[str] = "CLUSTER_CONNECT_REPLY"
    COUNTED: ClassVar[bool] = False
    RESPONSE: ClassVar[bool] = True
    FIELDS: ClassVar[FieldTable] = (("authorized", BOOL),)
    authorized: bool


@register
@dataclass(slots=True, eq=False, repr=False)
class NodeAnnounce(Packet):
    TYPE: ClassVar[int] = 111
    NAME: ClassVar[str] = "NODE_ANNOUNCE"
    COUNTED: ClassVar[bool] = False
    FIELDS: ClassVar[FieldTable] = (
        ("node_id", STR),
        ("backup_group_name", NSTR),
        ("backup", BOOL),
        ("event_id", I64),
        ("connector", CONNECTOR),
        ("backup_connector", CONNECTOR),
        ("scale_down_group_name", NSTR),
    )
    node_id: str
    backup_group_name: str | None
    backup: bool
    event_id: int
    connector: TransportConfiguration | None
    backup_connector: TransportConfiguration | None = None
    scale_down_group_name: str | None = None


@register
@dataclass(slots=True, eq=False, repr=False)
class BackupRegistration(Packet):
    TYPE: ClassVar[int] = 115
    NAME: ClassVar[str] = "BACKUP_REGISTRATION"
    COUNTED: ClassVar[bool] = False
    FIELDS: ClassVar[FieldTable] = (
        ("cluster_user", STR),
        ("cluster_password", STR),
        ("wants_failback", BOOL),
        ("connector", TRANSPORT),
    )
    cluster_user: str
    cluster_password: str = field(repr=False)
    wants_failback: bool
    connector: TransportConfiguration


@register
@dataclass(slots=True, eq=False, repr=False)
class BackupRegistrationFailed(Packet):
    TYPE: ClassVar[int] = 116
    NAME: ClassVar[str] = "BACKUP_REGISTRATION_FAILED"
    COUNTED: ClassVar[bool] = False
    FIELDS: ClassVar[FieldTable] = (("problem", I32),)
    problem: int


@register
@dataclass(slots=True, eq=False, repr=False)
class BackupRequest(Packet):
    TYPE: ClassVar[int] = 127
    NAME: ClassVar[str] = "BACKUP_REQUEST"
    COUNTED: ClassVar[bool] = False
    FIELDS: ClassVar[FieldTable] = (
        ("backup_size", I32),
        ("journal_directory", NSTR),
        ("bindings_directory", NSTR),
        ("large_messages_directory", NSTR),
        ("paging_directory", NSTR),
        ("node_id", NSSTR),
    )
    backup_size: int
    journal_directory: str | None
    bindings_directory: str | None
    large_messages_directory: str | None
    paging_directory: str | None
    node_id: str | None


@register
@dataclass(slots=True, eq=False, repr=False)
class BackupRequestResponse(Packet):
    TYPE: ClassVar[int] = -1
    NAME: ClassVar[str] = "BACKUP_REQUEST_RESPONSE"
    COUNTED: ClassVar[bool] = False
    RESPONSE: ClassVar[bool] = True
    FIELDS: ClassVar[FieldTable] = (("backup_started", BOOL),)
    backup_started: bool


@register
@dataclass(slots=True, eq=False, repr=False)
class QuorumVote(Packet):
    TYPE: ClassVar[int] = -2
    NAME: ClassVar[str] = "QUORUM_VOTE"
    COUNTED: ClassVar[bool] = False
    FIELDS: ClassVar[FieldTable] = (("handler", SSTR), ("vote", REST))
    handler: str
    vote: bytes


@register
@dataclass(slots=True, eq=False, repr=False)
class QuorumVoteReply(Packet):
    TYPE: ClassVar[int] = -3
    NAME: ClassVar[str] = "QUORUM_VOTE_REPLY"
    COUNTED: ClassVar[bool] = False
    RESPONSE: ClassVar[bool] = True
    FIELDS: ClassVar[FieldTable] = (("handler", SSTR), ("vote", REST))
    handler: str
    vote: bytes


@register
@dataclass(slots=True, eq=False, repr=False)
class ScaleDownAnnouncement(Packet):
    TYPE: ClassVar[int] = -6
    NAME: ClassVar[str] = "SCALEDOWN_ANNOUNCEMENT"
    COUNTED: ClassVar[bool] = False
    FIELDS: ClassVar[FieldTable] = (("target_node_id", SSTR), ("scaled_down_node_id", SSTR))
    target_node_id: str
    scaled_down_node_id: str
