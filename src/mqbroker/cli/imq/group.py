"""The tree of ``mqbroker imq``: words as ``imqcmd`` has them, and its exit statuses, 0 and 1."""

from __future__ import annotations

from typing import Any

import click

from mqbroker.cli.imq.instances import version_option
from mqbroker.cli.lazy import LazyGroup, inside
from mqbroker.cli.status import FAILED, CommandError


class ImqGroup(LazyGroup):
    """A group whose commands end with 0 or 1, whatever has failed."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except click.exceptions.NoArgsIsHelpError:
            raise
        except click.UsageError as error:
            raise CommandError(f"Error: {error.format_message()}") from error
        except click.Abort as error:
            raise CommandError("There is no answer: nothing was done.") from error
        except CommandError as error:
            if error.status == FAILED:
                raise
            raise CommandError(str(error)) from error


def _group(name: str, text: str, example: str, commands: dict[str, tuple[str, str]]) -> LazyGroup:
    return LazyGroup(name, text, f"Example: mqbroker imq {example}", commands)


_BROKERS = "mqbroker.cli.imq.brokers"
_DESTINATIONS = "mqbroker.cli.imq.destinations"
_DURABLES = "mqbroker.cli.imq.durables"

_GROUPS = inside(
    _group(
        "list",
        "List brokers, destinations or durable subscriptions.",
        "list bkr -b localhost:7676 -u admin -passfile passfile",
        {
            "bkr": (f"{_BROKERS}:list_brokers", "List the brokers of the cluster with their states."),
            "dst": (f"{_DESTINATIONS}:list_destinations", "List destinations with their counts."),
            "dur": (f"{_DURABLES}:list_durables", "List durable subscriptions."),
        },
    ),
    _group(
        "query",
        "Show everything about a broker or a destination.",
        "query bkr --origin",
        {
            "bkr": (f"{_BROKERS}:query_broker", "Show a broker, or where its properties come from."),
            "dst": (f"{_DESTINATIONS}:query_destination", "Show a destination."),
        },
    ),
    _group(
        "update",
        "Change attributes of a broker or a destination.",
        "update dst -t q -n orders -o maxNumMsgs=1000",
        {
            "bkr": (f"{_BROKERS}:update_broker", "Change properties in the file of the instance."),
            "dst": (f"{_DESTINATIONS}:update_destination", "Change attributes of a destination, on all brokers."),
        },
    ),
    _group(
        "create",
        "Create a destination.",
        "create dst -t q -n orders",
        {"dst": (f"{_DESTINATIONS}:create_destination", "Create a destination, on all brokers.")},
    ),
    _group(
        "destroy",
        "Destroy a destination or a durable subscription.",
        "destroy dst -t q -n orders",
        {
            "dst": (f"{_DESTINATIONS}:destroy_destination", "Destroy a destination, on all brokers."),
            "dur": (f"{_DURABLES}:destroy_durable", "Destroy a durable subscription, on all brokers."),
        },
    ),
    _group(
        "purge",
        "Remove all messages of a destination or a durable subscription.",
        "purge dst -t q -n orders",
        {
            "dst": (f"{_DESTINATIONS}:purge_destination", "Remove the messages that this broker keeps."),
            "dur": (f"{_DURABLES}:purge_durable", "Remove those that it keeps for a durable subscription."),
        },
    ),
    _group(
        "quiesce",
        "Let a broker take no new clients.",
        "quiesce bkr -b b1:7676",
        {"bkr": (f"{_BROKERS}:quiesce", "Take no new clients; those that are connected go on.")},
    ),
    _group(
        "unquiesce",
        "Let a broker take new clients again.",
        "unquiesce bkr -b b1:7676",
        {"bkr": (f"{_BROKERS}:unquiesce", "Take new clients again.")},
    ),
    _group(
        "shutdown",
        "Stop a broker.",
        "shutdown bkr -b b1:7676 -time 60",
        {"bkr": (f"{_BROKERS}:shutdown", "Stop in order, now or later.")},
    ),
    _group(
        "takeover",
        "Take over a broker of an enhanced cluster.",
        "takeover bkr -n b2 -b b1:7676",
        {"bkr": (f"{_BROKERS}:take_over", "Take over the messages and clients of another broker.")},
    ),
    _group(
        "restart",
        "Stop and start a broker.",
        "restart bkr -b b1:7676",
        {"bkr": (f"{_BROKERS}:restart", "Stop in order and start again, with its files as they are then.")},
    ),
    _group(
        "reload",
        "Read the list of brokers again.",
        "reload cls",
        {"cls": (f"{_BROKERS}:reload_cluster", "Let all members read the list of brokers again.")},
    ),
    _group(
        "changemaster",
        "Let another broker keep the change record.",
        "changemaster cls -o imq.cluster.masterbroker=b2:7676",
        {"cls": (f"{_BROKERS}:change_master", "Change the master; sent to the present one.")},
    ),
)

imq = ImqGroup(
    "imq",
    "Run and manage brokers with the words of Open Message Queue.",
    "Example: mqbroker imq list bkr -b localhost:7676 -u admin",
    {
        "brokerd": ("mqbroker.cli.imq.brokerd:brokerd", "Run an instance, with the options of imqbrokerd."),
        **_GROUPS,
        "dbmgr": ("mqbroker.cli.imq.dbmgr_group:dbmgr", "Manage the databases of brokers, in the words of imqdbmgr."),
    },
    params=[version_option()],
    context_settings={"help_option_names": ["-h", "--help", "-help", "-H"]},
)
