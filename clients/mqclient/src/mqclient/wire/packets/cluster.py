"""Packets between brokers on the cluster channel.

Source: ``protocol-spec/``, chapter "Cluster packets".
"""

from dataclasses import field

from mqclient.wire.packets.base import (
    BOOL,
    CONNECTOR,
    GROUP,
    I32,
    I64,
    NSSTR,
    NSTR,
    REST,
    SSTR,
    STR,
    TRANSPORT,
    Packet,
    packet,
)

# --- cluster control --------------------------------------------------------------------------------------------------


@packet(125, "CLUSTER_CONNECT", counted=False)
class ClusterConnect(Packet):
    cluster_user: STR
    cluster_password: STR = field(repr=False)
    product: GROUP[NSTR] = None
    groups: int = 0


@packet(126, "CLUSTER_CONNECT_REPLY", counted=False, response=True)
class ClusterConnectReply(Packet):
    authorized: BOOL
    product: GROUP[NSTR] = None
    groups: int = 0


@packet(111, "NODE_ANNOUNCE", counted=False)
class NodeAnnounce(Packet):
    node_id: STR
    backup_group_name: NSTR
    backup: BOOL
    event_id: I64
    connector: CONNECTOR
    backup_connector: CONNECTOR = None
    scale_down_group_name: NSTR = None


@packet(115, "BACKUP_REGISTRATION", counted=False)
class BackupRegistration(Packet):
    cluster_user: STR
    cluster_password: STR = field(repr=False)
    wants_failback: BOOL
    connector: TRANSPORT


@packet(116, "BACKUP_REGISTRATION_FAILED", counted=False)
class BackupRegistrationFailed(Packet):
    problem: I32


@packet(127, "BACKUP_REQUEST", counted=False)
class BackupRequest(Packet):
    backup_size: I32
    journal_directory: NSTR
    bindings_directory: NSTR
    large_messages_directory: NSTR
    paging_directory: NSTR
    node_id: NSSTR


@packet(-1, "BACKUP_REQUEST_RESPONSE", counted=False, response=True)
class BackupRequestResponse(Packet):
    backup_started: BOOL


@packet(-2, "QUORUM_VOTE", counted=False)
class QuorumVote(Packet):
    handler: SSTR
    vote: REST


@packet(-3, "QUORUM_VOTE_REPLY", counted=False, response=True)
class QuorumVoteReply(Packet):
    handler: SSTR
    vote: REST


@packet(-6, "SCALEDOWN_ANNOUNCEMENT", counted=False)
class ScaleDownAnnouncement(Packet):
    target_node_id: SSTR
    scaled_down_node_id: SSTR
