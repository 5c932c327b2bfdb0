"""The packets between brokers on the cluster channel, described."""

from __future__ import annotations

import construct as cs

from mqclient.wire.packets.grammar_packets import SERVER_TO_SERVER, Description, group
from mqclient.wire.packets.grammar_types import BOOL, CONNECTOR, I32, I64, NSSTR, NSTR, REST, SSTR, STR, TRANSPORT

_CLUSTER = "3"

CLUSTER = (
    Description(
        125,
        "CLUSTER_CONNECT",
        SERVER_TO_SERVER,
        _CLUSTER,
        "Ask to be taken as a broker of the cluster.",
        cs.Struct(
            "cluster_user" / STR,
            "cluster_password" / STR * "clear text",
            *group(1, "product" / NSTR * "of a broker that asks for that of the other"),
        ),
        answer="CLUSTER_CONNECT_REPLY",
        counted=False,
    ),
    Description(
        126,
        "CLUSTER_CONNECT_REPLY",
        SERVER_TO_SERVER,
        _CLUSTER,
        "The answer. Until it was true nothing else is heeded on this channel.",
        cs.Struct("authorized" / BOOL, *group(1, "product" / NSTR * "only if it was asked for")),
        counted=False,
        response=True,
    ),
    Description(
        111,
        "NODE_ANNOUNCE",
        SERVER_TO_SERVER,
        _CLUSTER,
        "Tell a member of a primary or of a backup.",
        cs.Struct(
            "node_id" / STR,
            "backup_group_name" / NSTR,
            "backup" / BOOL * "true: connector is that of a backup",
            "event_id" / I64,
            "connector" / CONNECTOR,
            "backup_connector" / CONNECTOR,
            "scale_down_group_name" / NSTR,
        ),
        counted=False,
    ),
    Description(
        115,
        "BACKUP_REGISTRATION",
        SERVER_TO_SERVER,
        _CLUSTER,
        "A replica asks the primary to replicate to it.",
        cs.Struct("cluster_user" / STR, "cluster_password" / STR * "clear text", "wants_failback" / BOOL, "connector" / TRANSPORT),
        answer="replication begins on channel 2, or BACKUP_REGISTRATION_FAILED",
        counted=False,
    ),
    Description(
        116,
        "BACKUP_REGISTRATION_FAILED",
        SERVER_TO_SERVER,
        _CLUSTER,
        "The primary refuses.",
        cs.Struct("problem" / I32 * "0 error, 1 authentication, 2 replicates already"),
        counted=False,
    ),
    Description(
        127,
        "BACKUP_REQUEST",
        SERVER_TO_SERVER,
        _CLUSTER,
        "Ask a broker to start a colocated backup.",
        cs.Struct(
            "backup_size" / I32 * "backups that the asked broker is believed to have",
            "journal_directory" / NSTR,
            "bindings_directory" / NSTR,
            "large_messages_directory" / NSTR,
            "paging_directory" / NSTR,
            "node_id" / NSSTR,
        ),
        answer="BACKUP_REQUEST_RESPONSE",
        counted=False,
    ),
    Description(
        -1,
        "BACKUP_REQUEST_RESPONSE",
        SERVER_TO_SERVER,
        _CLUSTER,
        "The answer.",
        cs.Struct("backup_started" / BOOL),
        counted=False,
        response=True,
    ),
    Description(
        -2,
        "QUORUM_VOTE",
        SERVER_TO_SERVER,
        _CLUSTER,
        "Ask a member for its vote.",
        cs.Struct("handler" / SSTR * "kind of the vote", "vote" / REST * "by kind"),
        answer="QUORUM_VOTE_REPLY",
        counted=False,
    ),
    Description(
        -3,
        "QUORUM_VOTE_REPLY",
        SERVER_TO_SERVER,
        _CLUSTER,
        "The vote.",
        cs.Struct("handler" / SSTR, "vote" / REST * "by kind"),
        counted=False,
        response=True,
    ),
    Description(
        -6,
        "SCALEDOWN_ANNOUNCEMENT",
        SERVER_TO_SERVER,
        _CLUSTER,
        "The messages of the second node are at the first from now on.",
        cs.Struct("target_node_id" / SSTR, "scaled_down_node_id" / SSTR),
        counted=False,
    ),
)
