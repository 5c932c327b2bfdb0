"""The blocks of ``core`` about features that the broker does not have: any content stops the start."""

from __future__ import annotations

from mqbroker.config.schema.model import refused_block

REFUSED = (
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
