"""The elements of an ``address-setting``."""

from __future__ import annotations

from mqbroker.config.schema import values as kinds
from mqbroker.config.schema.model import Item, flag, honoured, quiet, refused, warned

NO_SPECIAL = "this kind of queue is not there yet"
NO_RELOAD = "a changed file takes effect at the next start"
OLD_JMS = "superseded: write auto-create-queues, auto-create-addresses, auto-delete-queues or auto-delete-addresses"
FORCE = kinds.choice("OFF", "FORCE")

ADDRESS_SETTING: tuple[Item, ...] = (
    honoured(
        "dead-letter-address",
        kinds.TEXT,
        "Where messages go that were delivered too often; empty: nowhere, even if a more general match has one.",
    ),
    flag("auto-create-dead-letter-resources", "Make a queue on it for each original address."),
    honoured("dead-letter-queue-prefix", kinds.TEXT, "Prefix of such a queue."),
    honoured("dead-letter-queue-suffix", kinds.TEXT, "Suffix of such a queue."),
    honoured("expiry-address", kinds.TEXT, "Where expired messages go; empty: nowhere, even if a more general match has one."),
    flag("auto-create-expiry-resources", "Make a queue on it for each original address."),
    honoured("expiry-queue-prefix", kinds.TEXT, "Prefix of such a queue."),
    honoured("expiry-queue-suffix", kinds.TEXT, "Suffix of such a queue."),
    honoured("expiry-delay", kinds.LONG_OR_NONE, "Time to live of messages that have none, ms; -1 off."),
    honoured("min-expiry-delay", kinds.LONG_OR_NONE, "Shortest time to live, ms; -1 off."),
    honoured("max-expiry-delay", kinds.LONG_OR_NONE, "Longest time to live, ms; -1 off."),
    flag("no-expiry", "Messages never expire."),
    honoured(
        "max-delivery-attempts", kinds.integer(0, kinds.INT_MAX, -1), "Deliveries before a message is a dead letter; -1 and 0 no limit."
    ),
    honoured("redelivery-delay", kinds.NOT_NEGATIVE, "Pause before a message is delivered again, ms."),
    honoured(
        "redelivery-delay-multiplier", kinds.decimal(0), "Factor by which the pause grows each time.", beans=("redeliveryMultiplier",)
    ),
    honoured("redelivery-collision-avoidance-factor", kinds.decimal(0, 1), "Part of the pause that varies at random."),
    honoured("max-redelivery-delay", kinds.NOT_NEGATIVE, "Longest pause, ms; ten times redelivery-delay unless set."),
    flag("send-to-dla-on-no-route", "A message that no queue takes goes to the dead letter address.", beans=("sendToDLAOnNoRoute",)),
    honoured(
        "address-full-policy",
        kinds.choice("PAGE", "DROP", "BLOCK", "FAIL"),
        "What happens when the address is full.",
        beans=("addressFullMessagePolicy",),
    ),
    honoured("max-size-bytes", kinds.BYTES_OR_NONE, "Bytes of messages at which the address is full; -1 no limit."),
    honoured("max-size-messages", kinds.integer(0, kinds.INT_MAX, -1), "Messages at which the address is full; -1 no limit."),
    quiet("max-size-bytes-reject-threshold", kinds.BYTES_OR_NONE, "AMQP only.", "only clients of the CORE protocol are served"),
    honoured("page-size-bytes", kinds.POSITIVE_BYTES, "Size of a page file, bytes."),
    honoured(
        "max-read-page-bytes",
        kinds.BYTES_OR_NONE,
        "Bytes of waiting and unacknowledged messages at which a queue reads no further from pages; -1 no limit.",
    ),
    honoured("max-read-page-messages", kinds.COUNT_OR_NONE, "The same in messages."),
    honoured("prefetch-page-bytes", kinds.BYTES_OR_NONE, "Bytes of waiting messages at which it reads no further; -1 no limit."),
    honoured("prefetch-page-messages", kinds.COUNT_OR_NONE, "The same in messages."),
    honoured("page-limit-bytes", kinds.BYTES_OR_NONE, "Bytes at which the pages are full; holds only with page-full-policy. -1 no limit."),
    honoured("page-limit-messages", kinds.LONG_OR_NONE, "Messages at which they are full; holds only with page-full-policy. -1 no limit."),
    honoured(
        "page-full-policy", kinds.choice("DROP", "FAIL"), "What happens then; holds only with a limit.", beans=("pageFullMessagePolicy",)
    ),
    quiet("page-max-cache-size", kinds.INT, "Pages held in memory.", "without effect in current Artemis too", beans=("pageCacheMaxSize",)),
    honoured("default-address-routing-type", kinds.ROUTING_TYPE, "Routing type of an address whose creator names none."),
    honoured("default-queue-routing-type", kinds.ROUTING_TYPE, "Routing type of a queue whose creator names none."),
    flag("auto-create-addresses", "Make an address when it is first used."),
    flag("auto-create-queues", "Make a queue when it is first used."),
    flag("auto-delete-addresses", "Remove such an address when it is no longer used."),
    flag("auto-delete-queues", "Remove such a queue when it is no longer used."),
    honoured("auto-delete-addresses-delay", kinds.NOT_NEGATIVE, "How long it must have been unused, ms."),
    honoured("auto-delete-queues-delay", kinds.NOT_NEGATIVE, "How long it must have been unused, ms."),
    flag("auto-delete-addresses-skip-usage-check", "Remove it even if it was never used."),
    flag("auto-delete-queues-skip-usage-check", "Remove it even if it was never used."),
    honoured("auto-delete-queues-message-count", kinds.LONG_OR_NONE, "Most messages in a queue that is removed; -1 any number."),
    flag("auto-delete-created-queues", "Remove queues that were made explicitly, too."),
    warned("config-delete-addresses", FORCE, "Remove addresses that left this file.", NO_RELOAD, ("OFF",)),
    warned("config-delete-queues", FORCE, "Remove queues that left this file.", NO_RELOAD, ("OFF",)),
    warned("config-delete-diverts", FORCE, "Remove diverts that left this file.", NO_RELOAD, ("OFF",)),
    honoured("default-max-consumers", kinds.integer(0, kinds.INT_MAX, -1), "Most consumers of a queue; -1 no limit."),
    flag("default-purge-on-no-consumers", "Remove a queue's messages when its last consumer leaves."),
    flag("default-exclusive-queue", "One consumer gets everything."),
    flag("default-group-rebalance", "Groups are dealt out anew for a new consumer."),
    flag("default-group-rebalance-pause-dispatch", "Delivery pauses until no message is in delivery."),
    honoured("default-group-buckets", kinds.integer(-1, kinds.INT_MAX), "Groups are put into so many; 0: no groups, -1: each for itself."),
    honoured("default-group-first-key", kinds.OPTIONAL_TEXT, "Property that is true in the first message of a group for its consumer."),
    flag("default-last-value-queue", "Keep only the newest message of each key."),
    honoured("default-last-value-key", kinds.OPTIONAL_TEXT, "Property that is the key; with it the queue is a last-value queue."),
    flag("default-non-destructive", "Messages stay in the queue when they are consumed."),
    honoured("default-consumers-before-dispatch", kinds.integer(0, kinds.INT_MAX), "Consumers that must be there before delivery begins."),
    honoured("default-delay-before-dispatch", kinds.LONG_OR_NONE, "Or how long after the first one, ms; -1 only the number counts."),
    honoured("default-ring-size", kinds.LONG_OR_NONE, "Most messages that wait in a queue; older ones give way. -1 no limit."),
    honoured("default-consumer-window-size", kinds.integer(-1, kinds.INT_MAX), "Bytes sent ahead to a consumer that sets nothing itself."),
    refused("retroactive-message-count", kinds.LONG_OR_NONE, "Old messages given to a new queue.", NO_SPECIAL, (0, -1)),
    honoured(
        "redistribution-delay",
        kinds.LONG,
        "Pause after the last consumer left before messages move to a broker that has consumers, ms; negative: they stay.",
    ),
    honoured("slow-consumer-threshold", kinds.LONG, "Rate of acknowledgements below which a consumer is slow; -1: nobody looks."),
    honoured(
        "slow-consumer-threshold-measurement-unit",
        kinds.choice("MESSAGES_PER_SECOND", "MESSAGES_PER_MINUTE", "MESSAGES_PER_HOUR", "MESSAGES_PER_DAY"),
        "Unit of that rate.",
    ),
    honoured("slow-consumer-check-period", kinds.LONG, "How often to look, s; 0 or less: never."),
    honoured(
        "slow-consumer-policy",
        kinds.choice("NOTIFY", "KILL"),
        "KILL closes the connection of a slow consumer, NOTIFY sends a notification.",
    ),
    honoured("id-cache-size", kinds.integer(0, kinds.INT_MAX), "Duplicate ids kept for the address; 0: no duplicate detection."),
    quiet("initial-queue-buffer-size", kinds.POWER_OF_TWO, "First size of a buffer.", "buffers grow as they need to"),
    honoured("management-browse-page-size", kinds.integer(1, kinds.INT_MAX), "Most messages that management lists at once."),
    honoured("management-message-attribute-size-limit", kinds.INT, "Characters after which management cuts a property; -1 none."),
    quiet("message-counter-history-day-limit", kinds.INT, "Days in the history of message counts.", "no history is kept"),
    flag("enable-metrics", "Show metrics of the address and its queues."),
    flag("enable-ingress-timestamp", "Note in each message when the broker got it."),
    honoured("disk-full-policy", kinds.choice("BLOCK", "FAIL", "DROP"), "What happens to messages sent while the disk is nearly full."),
    honoured(
        "mqbroker-consumer-flow-limit",
        kinds.integer(1, kinds.INT_MAX),
        "Home brokers (not in Artemis): most messages under way to a consumer of another broker; as the cluster has it unless set.",
        field="consumer_flow_limit",
        beans=("consumerFlowLimit",),
    ),
    honoured(
        "mqbroker-local-delivery-preferred",
        kinds.BOOLEAN,
        "Home brokers (not in Artemis): consumers of the broker that keeps a message come first.",
        field="local_delivery_preferred",
        beans=("localDeliveryPreferred",),
    ),
    honoured(
        "last-value-queue",
        kinds.BOOLEAN,
        "Old name of default-last-value-queue.",
        instead="default-last-value-queue",
        field="default_last_value_queue",
    ),
    quiet("auto-create-jms-queues", kinds.BOOLEAN, "Old.", OLD_JMS, instead="auto-create-queues"),
    quiet("auto-create-jms-topics", kinds.BOOLEAN, "Old.", OLD_JMS, instead="auto-create-addresses"),
    quiet("auto-delete-jms-queues", kinds.BOOLEAN, "Old.", OLD_JMS, instead="auto-delete-queues"),
    quiet("auto-delete-jms-topics", kinds.BOOLEAN, "Old.", OLD_JMS, instead="auto-delete-addresses"),
)
