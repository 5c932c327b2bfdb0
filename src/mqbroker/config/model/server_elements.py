"""The plain elements of ``core`` that are not about storage."""

from __future__ import annotations

from mqbroker.config.schema import values as kinds
from mqbroker.config.schema.model import Item, flag, honoured, quiet, warned

ONE_LOOP = "the broker runs on one event loop; there is no such thread pool"
NO_AMQP = "only clients of the CORE protocol are served"
NO_JMX = "there is no JMX; use the management address, the command line or the metrics"
NO_JAVA = "Java classes cannot be loaded, and an interceptor decides which messages pass"

BROKER: tuple[Item, ...] = (
    honoured("name", kinds.FILLED_TEXT, "Name of the broker, also the tag of its metrics."),
    honoured("system-property-prefix", kinds.FILLED_TEXT, "Prefix of the properties that override this file."),
    quiet(
        "internal-naming-prefix",
        kinds.FILLED_TEXT,
        "Prefix of addresses and queues that the broker makes for itself.",
        "it makes none yet",
    ),
    flag("graceful-shutdown-enabled", "On stop, take no new connections and wait until the clients have left."),
    honoured("graceful-shutdown-timeout", kinds.LONG_OR_NONE, "How long to wait for them, ms; -1 waits forever."),
    warned(
        "configuration-file-refresh-period",
        kinds.LONG,
        "How often to look for changes of this file, ms.",
        "a changed file takes effect at the next start",
        (-1, 0),
    ),
    warned("server-dump-interval", kinds.LONG, "Writes figures of the broker to the log.", "read the metrics instead", (-1, 0)),
    quiet("log-delegate-factory-class-name", kinds.TEXT, "A Java class for logging.", "without effect in current Artemis too"),
)

SECURITY: tuple[Item, ...] = (
    flag("security-enabled", "false: no authentication, and everybody may do everything."),
    honoured("security-invalidation-interval", kinds.NOT_NEGATIVE, "How long a login or a permission is remembered, ms; 0 not at all."),
    honoured("authentication-cache-size", kinds.NOT_NEGATIVE, "How many logins are remembered; 0 none."),
    honoured("authorization-cache-size", kinds.NOT_NEGATIVE, "How many permission checks are remembered; 0 none."),
    flag("populate-validated-user", "Put the user who sent a message into its JMSXUserID."),
    flag("reject-empty-validated-user", "Refuse messages whose user is not known."),
    honoured("cluster-user", kinds.FILLED_TEXT, "User of the connections between brokers."),
    honoured("cluster-password", kinds.TEXT, "Password of the connections between brokers; may be ENC(…)."),
    flag("mask-password", "Old switch: all passwords of this file are masked. Write ENC(…) instead."),
    honoured("password-codec", kinds.FILLED_TEXT, "Codec of masked passwords; only Artemis's own, with an optional key=… part."),
)

MANAGEMENT: tuple[Item, ...] = (
    honoured("management-address", kinds.FILLED_TEXT, "Where management messages are sent."),
    honoured("management-notification-address", kinds.FILLED_TEXT, "Where notifications are sent."),
    flag("management-message-rbac", "Check the permissions view and edit for every management call."),
    honoured("management-rbac-prefix", kinds.FILLED_TEXT, "First word of the names checked for that."),
    honoured("view-permission-method-match-pattern", kinds.PATTERN, "Operations that need view; all others need edit."),
    flag("suppress-session-notifications", "Send no notification when a session opens or closes."),
    warned("jmx-management-enabled", kinds.BOOLEAN, "Management through JMX.", NO_JMX),
    quiet("jmx-domain", kinds.TEXT, "First part of JMX names.", NO_JMX),
    quiet("jmx-use-broker-name", kinds.BOOLEAN, "Put the broker's name into JMX names.", NO_JMX),
    warned("message-counter-enabled", kinds.BOOLEAN, "Keep a history of message counts.", "no history is kept; read the metrics instead"),
    quiet("message-counter-sample-period", kinds.LONG, "Length of one sample, ms.", "no history is kept"),
    quiet("message-counter-max-day-history", kinds.INT, "Days in the history.", "no history is kept"),
)

CONNECTIONS: tuple[Item, ...] = (
    honoured("connection-ttl-override", kinds.LONG_OR_NONE, "Connection time to live that replaces every client's own, ms; -1 off."),
    honoured("connection-ttl-check-interval", kinds.POSITIVE, "How often dead connections are looked for, ms."),
    quiet(
        "async-connection-execution-enabled",
        kinds.BOOLEAN,
        "Handle packets off the network thread.",
        ONE_LOOP,
        beans=("enabledAsyncConnectionExecution",),
    ),
    quiet("thread-pool-max-size", kinds.POSITIVE_INT_OR_NONE, "Threads of the general pool.", ONE_LOOP),
    quiet("scheduled-thread-pool-max-size", kinds.integer(0, kinds.INT_MAX), "Threads of the timer pool.", ONE_LOOP),
    quiet("resolve-protocols", kinds.BOOLEAN, "Load the protocols found on the class path.", NO_AMQP),
    quiet("amqp-use-core-subscription-naming", kinds.BOOLEAN, "AMQP subscriptions share queues with CORE ones.", NO_AMQP),
    quiet("mqtt-session-scan-interval", kinds.LONG, "MQTT only.", NO_AMQP),
    quiet("mqtt-session-state-persistence-timeout", kinds.LONG, "MQTT only.", NO_AMQP),
    quiet("mqtt-subscription-persistence-enabled", kinds.BOOLEAN, "MQTT only.", NO_AMQP),
    quiet("mirror-ack-manager-queue-attempts", kinds.INT, "AMQP mirror only.", NO_AMQP),
    quiet("mirror-ack-manager-page-attempts", kinds.INT, "AMQP mirror only.", NO_AMQP),
    quiet("mirror-ack-manager-retry-delay", kinds.INT, "AMQP mirror only.", NO_AMQP),
    quiet("mirror-ack-manager-warn-unacked", kinds.BOOLEAN, "AMQP mirror only.", NO_AMQP),
    quiet("mirror-page-transaction", kinds.BOOLEAN, "AMQP mirror only.", NO_AMQP),
)

MESSAGES: tuple[Item, ...] = (
    honoured("transaction-timeout", kinds.LONG, "How long an XA branch may last until it is prepared, ms; then it is rolled back."),
    honoured("transaction-timeout-scan-period", kinds.LONG, "How often that is looked for, ms; 0 or less: never."),
    honoured("message-expiry-scan-period", kinds.LONG, "How often expired messages are looked for, ms; 0 or less: only at delivery."),
    quiet("message-expiry-thread-priority", kinds.INT, "Priority of a thread.", "without effect in current Artemis too"),
    honoured("address-queue-scan-period", kinds.LONG, "How often unused queues and addresses are looked for, ms; 0 or less: never."),
    honoured("id-cache-size", kinds.integer(0, kinds.INT_MAX), "Duplicate ids kept per address; 0: no duplicate detection."),
    flag("persist-id-cache", "Duplicate ids survive a restart."),
    flag("persist-delivery-count-before-delivery", "The delivery count is stored before a message is delivered."),
    honoured("max-redelivery-records", kinds.LONG_OR_NONE, "How many changes of its delivery count are stored per message; -1 all."),
    honoured("temporary-queue-namespace", kinds.TEXT, "Put before the name of a temporary queue when its settings are looked up."),
    honoured("uuid-namespace", kinds.TEXT, "The same for addresses whose name is a UUID."),
    warned(
        "wild-card-routing-enabled",
        kinds.BOOLEAN,
        "Old switch for wildcard routing.",
        "it has no effect in current Artemis either; write routing-enabled in wildcard-addresses",
        (True,),
    ),
    honoured("literal-match-markers", kinds.characters(2), "Two characters around a match that is meant literally, for example ()."),
)

WATCHDOGS: tuple[Item, ...] = (
    flag(
        "critical-analyzer",
        "Watch the event loop: its lag is a metric, and its stack is logged when it has not run for 5 s, or for a shorter timeout.",
    ),
    honoured("critical-analyzer-timeout", kinds.LONG, "When the event loop counts as stalled for good, ms; 0 or less: it is not watched."),
    honoured("critical-analyzer-check-period", kinds.LONG, "How often to look, ms; at least twice a second. Unset: half of the timeout."),
    honoured(
        "critical-analyzer-policy",
        kinds.choice("LOG", "HALT", "SHUTDOWN"),
        "What to do then: LOG writes it; HALT and SHUTDOWN end the process at once (what would stop it in order does not run).",
    ),
    honoured(
        "network-check-list",
        kinds.TEXT,
        "Hosts, separated by commas. While none of them, and no page of network-check-URL-list, answers, the broker is stopped.",
    ),
    honoured(
        "network-check-URL-list",
        kinds.TEXT,
        "http or https URLs, separated by commas; any answer of HTTP counts.",
    ),
    honoured("network-check-period", kinds.POSITIVE, "How often to check, ms."),
    honoured("network-check-timeout", kinds.POSITIVE, "How long to wait for an answer, ms; ping commands get whole seconds, at least 1."),
    honoured("network-check-NIC", kinds.OPTIONAL_TEXT, "Network card of the ping commands that stand here.", beans=("networCheckNIC",)),
    honoured("network-check-ping-command", kinds.FILLED_TEXT, "How to ping: %d is the timeout in seconds, %s the host. No shell."),
    honoured("network-check-ping6-command", kinds.FILLED_TEXT, "How to ping an IPv6 address: %1$d is the timeout, %2$s the address."),
    quiet("memory-warning-threshold", kinds.PERCENT, "Free memory below which to warn.", "see memory-measure-interval"),
    warned("memory-measure-interval", kinds.LONG, "How often memory is measured, ms.", "read the metrics instead", (-1, 0)),
)
