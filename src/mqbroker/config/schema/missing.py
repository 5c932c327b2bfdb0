"""The blocks of ``core`` about things that the broker does not have: anything in them stops the start."""

from __future__ import annotations

from mqbroker.config.schema.model import refused_block

NO_CLUSTER = "clusters are not there yet: this broker would stay alone and forward nothing"
NO_HA = "high availability is not there yet: nothing would take over, and a backup would start as a second active broker"

REFUSED = (
    refused_block(
        "diverts",
        "Copies or moves messages from one address to another.",
        "diverts are not there yet: messages would stay where they are",
        "divert transformer-class-name transformer class-name property @key @value exclusive routing-name address "
        "forwarding-address filter @string routing-type @name",
    ),
    refused_block(
        "bridges",
        "Forwards a queue to another broker.",
        "bridges are not there yet: messages would stay in the queue",
        "bridge queue-name forwarding-address ha filter @string transformer-class-name transformer class-name property "
        "@key @value min-large-message-size check-period connection-ttl retry-interval retry-interval-multiplier max-"
        "retry-interval initial-connect-attempts reconnect-attempts failover-on-server-shutdown use-duplicate-detection "
        "confirmation-window-size producer-window-size user password reconnect-attempts-same-node routing-type "
        "concurrency pending-ack-timeout client-id static-connectors connector-ref @allow-direct-connections-only "
        "discovery-group-ref @discovery-group-name @name",
    ),
    refused_block(
        "broadcast-groups",
        "Announces this broker to a cluster.",
        NO_CLUSTER,
        "broadcast-group local-bind-address local-bind-port group-address group-port broadcast-period jgroups-file "
        "jgroups-channel connector-ref @name",
    ),
    refused_block(
        "discovery-groups",
        "Listens for the brokers of a cluster.",
        NO_CLUSTER,
        "discovery-group group-address group-port jgroups-file jgroups-channel refresh-timeout local-bind-address "
        "local-bind-port initial-wait-timeout @name",
    ),
    refused_block(
        "cluster-connections",
        "Joins brokers to a cluster.",
        NO_CLUSTER,
        "cluster-connection-uri @address @name cluster-connection address connector-ref check-period connection-ttl "
        "min-large-message-size call-timeout retry-interval retry-interval-multiplier max-retry-interval initial-"
        "connect-attempts reconnect-attempts use-duplicate-detection forward-when-no-consumers message-load-balancing "
        "max-hops confirmation-window-size producer-window-size call-failover-timeout notification-interval "
        "notification-attempts scale-down-connector client-id topology-scanner-attempts static-connectors @allow-"
        "direct-connections-only discovery-group-ref @discovery-group-name @uri",
    ),
    refused_block(
        "grouping-handler",
        "Keeps message groups together over a cluster.",
        NO_CLUSTER,
        "type address timeout group-timeout reaper-period @name",
    ),
    refused_block(
        "ha-policy",
        "Who takes over when a broker fails. An empty primary-only (live-only in older files) is accepted: it is the default.",
        NO_HA,
        "live-only scale-down enabled group-name discovery-group-ref @discovery-group-name connectors connector-ref "
        "commit-interval primary-only replication primary cluster-name max-saved-replicated-journals-size check-for-"
        "live-server check-for-active-server initial-replication-sync-timeout vote-on-replication-failure quorum-size "
        "vote-retries vote-retry-wait quorum-vote-wait retry-replication-wait manager class-name properties property "
        "@key @value coordination-id master backup restart-backup allow-failback failback-delay slave colocated "
        "request-backup backup-request-retries backup-request-retry-interval max-backups backup-port-offset excludes "
        "shared-store failover-on-shutdown wait-for-activation",
        ("primary-only", "live-only"),
    ),
    refused_block(
        "federations",
        "Shares addresses and queues with other brokers.",
        "federation is not there yet: no message would come from another broker",
        "federation upstream ha circuit-breaker-timeout share-connection connection-ttl call-timeout retry-interval "
        "retry-interval-multiplier max-retry-interval initial-connect-attempts reconnect-attempts check-period call-"
        "failover-timeout static-connectors connector-ref discovery-group-ref @discovery-group-name policy @ref "
        "@priority-adjustment @user @password @name downstream upstream-connector-ref policy-set queue-policy include "
        "@queue-match @address-match exclude @transformer-ref @include-federated address-policy @auto-delete @auto-"
        "delete-delay @auto-delete-message-count @max-hops @enable-divert-bindings transformer class-name property @key "
        "@value",
    ),
    refused_block(
        "broker-connections",
        "AMQP connections to other brokers.",
        "AMQP is not spoken: nothing would be mirrored or forwarded",
        "amqp-connection sender @address-match @queue-name receiver peer mirror property @key @value @message-"
        "acknowledgements @queue-creation @queue-removal @durable @sync @address-filter federation local-queue-policy "
        "include @queue-match exclude transformer-class-name transformer class-name @priority-adjustment @include-"
        "federated @name local-address-policy @auto-delete @auto-delete-delay @auto-delete-message-count @max-hops "
        "@enable-divert-bindings remote-queue-policy remote-address-policy bridge bridge-from-address @priority @filter "
        "@remote-address @remote-address-prefix @remote-address-suffix @remote-terminus-capabilities @use-durable-"
        "subscriptions bridge-to-address bridge-from-queue bridge-to-queue @uri @auto-start @reconnect-attempts @retry-"
        "interval @user @password",
    ),
    refused_block(
        "connection-routers",
        "Sends clients to other brokers.",
        "clients would not be sent to the broker that is meant for them",
        "connection-router key-type key-filter local-target-filter cache persisted timeout policy property @key @value "
        "@name pool username password check-period quorum-size quorum-timeout local-target-enabled cluster-connection "
        "static-connectors connector-ref discovery-group-ref @discovery-group-name key-transformer",
    ),
    refused_block(
        "connector-services",
        "Java classes that move messages.",
        "Java classes cannot be loaded: no message would be moved",
        "connector-service factory-class param @key @value @name",
    ),
)
