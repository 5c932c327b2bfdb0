"""The tree of commands, and the one place where errors become messages and exit statuses."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click

from mqbroker.cli import status
from mqbroker.cli.lazy import LazyGroup

queue = LazyGroup(
    "queue",
    "Manage the queues of a running broker.",
    "Example: mqbroker queue stat --queueName orders",
    {
        "create": ("mqbroker.cli.queues.queue:create", "Create a queue."),
        "delete": ("mqbroker.cli.queues.queue:delete", "Delete a queue."),
        "update": ("mqbroker.cli.queues.queue:update", "Change a queue."),
        "stat": ("mqbroker.cli.queues.queue_stat:stat", "Print the counters of queues."),
        "purge": ("mqbroker.cli.queues.queue:purge", "Delete all messages of a queue."),
        "retry-messages": ("mqbroker.cli.queues.queue_messages:retry", "Send dead letters back to where they came from."),
        "move-messages": ("mqbroker.cli.queues.queue_messages:move", "Move messages to another queue."),
        "remove-messages": ("mqbroker.cli.queues.queue_messages:remove", "Delete the messages that match a filter."),
    },
)


reader = LazyGroup(
    "reader",
    "Manage the readers of queues: named positions, such as those of Spark jobs.",
    "Example: mqbroker reader list --queue orders",
    {
        "list": ("mqbroker.cli.queues.reader:list_readers", "Print readers and how far they are."),
        "remove": ("mqbroker.cli.queues.reader:remove", "Forget a reader."),
    },
)


activation = LazyGroup(
    "activation",
    "Help a stopped broker of a replicated pair that gets no proof that it may be active.",
    "Example: mqbroker activation list --instance /var/lib/mybroker",
    {
        "list": ("mqbroker.cli.data.activation:list_record", "Print what a copy knows."),
        "set": ("mqbroker.cli.data.activation:set_sequence", "Let this copy be the one that becomes active."),
        "forget": ("mqbroker.cli.data.activation:forget", "Take a node out of the voters."),
    },
)


address = LazyGroup(
    "address",
    "Manage the addresses of a running broker.",
    "Example: mqbroker address show --name orders",
    {
        "create": ("mqbroker.cli.queues.address:create", "Create an address."),
        "delete": ("mqbroker.cli.queues.address:delete", "Delete an address."),
        "update": ("mqbroker.cli.queues.address:update", "Change the routing types of an address."),
        "show": ("mqbroker.cli.queues.address:show", "Show the addresses, or one of them."),
    },
)


check = LazyGroup(
    "check",
    "Run checks for scripts and health probes.",
    "Example: mqbroker check node --up --diskUsage -1",
    {
        "node": ("mqbroker.cli.check.check:node", "Check a node."),
        "queue": ("mqbroker.cli.check.check:queue", "Check a queue."),
        "ha": ("mqbroker.cli.check.check_ha:ha", "Add up how long a takeover takes."),
        "config": ("mqbroker.cli.check.check_config:config", "Check a broker.xml without starting a broker."),
    },
)


demo = LazyGroup(
    "demo",
    "Run demonstrations, which start everything that they need and remove it again.",
    "Example: mqbroker demo cluster",
    {
        "cluster": ("mqbroker.cli.demo.demo:cluster", "Three brokers with producers and consumers, one of which you may kill."),
        "takeover": ("mqbroker.cli.demo.takeover:takeover", "An enhanced cluster under load; one of its brokers takes over another."),
        "failover": ("mqbroker.cli.demo.failover:failover", "A pair of brokers under load, one of which takes over from the other."),
    },
)


user = LazyGroup(
    "user",
    "Manage the users of a running broker that keeps them in properties files.",
    "Example: mqbroker user add --user-command-user bob --user-command-password pw --role amq",
    {
        "list": ("mqbroker.cli.queues.user:list_users", "List users."),
        "add": ("mqbroker.cli.queues.user:add", "Add a user."),
        "rm": ("mqbroker.cli.queues.user:remove", "Remove a user."),
        "reset": ("mqbroker.cli.queues.user:reset", "Change password and roles of a user."),
    },
)


data = LazyGroup(
    "data",
    "Look at the journal and messages, and move them from and to a real Artemis.",
    "Example: mqbroker data exp --instance /var/lib/mybroker --output exp.xml",
    {
        "print": ("mqbroker.cli.data.data:print_data", "Print the records of the journals of a stopped broker."),
        "exp": ("mqbroker.cli.data.data:exp", "Export queues and messages of a stopped broker as XML."),
        "imp": ("mqbroker.cli.data.data:imp", "Import such an XML file into a running broker."),
        "recover": ("mqbroker.cli.data.data:recover", "Save everything readable in a damaged journal to a new one."),
        "merge": ("mqbroker.cli.data.merge.merge:merge", "After a split, send what only the kept journal has."),
    },
)


@click.command(name="version", epilog="Example: mqbroker version")
def version() -> None:
    """Print the version, and whether the broker is pure Python or compiled."""
    from mqbroker import __version__
    from mqbroker.process.forms import running_form

    click.echo(f"mqbroker {__version__}, {running_form()}")
    click.echo(f"Python {sys.version.split()[0]}: {sys.executable}")


@click.command(name="help", epilog="Example: mqbroker help queue stat", add_help_option=False)
@click.argument("path", nargs=-1, metavar="[COMMAND]...")
@click.pass_context
def help_command(context: click.Context, path: tuple[str, ...]) -> None:
    """Show the help of a command: `help queue stat` is `queue stat --help`."""
    command: click.Command = root
    parent = context.find_root()
    for name in path:
        found = command.get_command(parent, name) if isinstance(command, click.Group) else None
        if found is None:
            raise click.UsageError(f"There is no command '{' '.join(path)}'.", context)
        command = found
        parent = click.Context(command, info_name=name, parent=parent)
    click.echo(command.get_help(parent))


root = LazyGroup(
    "mqbroker",
    "mqbroker: command line of the broker.",
    "Example: mqbroker create /var/lib/mybroker --user admin --password secret --require-login",
    {
        "help": (help_command, "Show the help of a command."),
        "create": ("mqbroker.cli.start.create:create", "Create an instance folder for a broker."),
        "run": ("mqbroker.cli.start.lifecycle:run", "Run the broker of an instance folder."),
        "stop": ("mqbroker.cli.start.lifecycle:stop", "Stop the broker of an instance folder in an orderly way."),
        "kill": ("mqbroker.cli.start.lifecycle:kill", "End a broker at once that was started with --allow-kill."),
        "producer": ("mqbroker.cli.traffic.producer:producer", "Send messages."),
        "consumer": ("mqbroker.cli.traffic.consumer:consumer", "Receive messages."),
        "browser": ("mqbroker.cli.traffic.consumer:browser", "Look at messages without taking them."),
        "queue": (queue, "Create, change, delete and list queues; retry, move and delete messages."),
        "address": (address, "Create, change, delete and list addresses."),
        "reader": (reader, "List and remove the readers of queues."),
        "cluster": ("mqbroker.cli.cluster.cluster:cluster", "Show members, links and backlog of a cluster, or draw them."),
        "imq": ("mqbroker.cli.imq.group:imq", "Run and manage brokers with the words of Open Message Queue."),
        "demo": (demo, "Show on this machine what a cluster or a pair does."),
        "activation": (activation, "Show and set what the copy of a replicated node knows of the others."),
        "check": (check, "Check a node, a queue, a configuration file or its high availability."),
        "user": (user, "Add, change, remove and list users."),
        "data": (data, "Print, export, import, recover and merge stored messages."),
        "mask": ("mqbroker.cli.mask:mask", "Print a password masked or hashed, for a configuration file."),
        "completion": ("mqbroker.cli.completion:completion", "Print the completion script for a shell."),
        "version": (version, "Print the version."),
    },
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)


def run_command_line(arguments: Sequence[str] | None = None) -> None:
    """Run the command in ``arguments`` (default: the process's arguments) and exit with its status."""
    sys.exit(invoke(arguments))


def invoke(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status; messages about errors go to stderr."""
    try:
        result = root.main(args=None if arguments is None else list(arguments), prog_name="mqbroker", standalone_mode=False)
        return result if isinstance(result, int) else status.OK
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message())
        return status.OK
    except click.UsageError as error:
        error.show()
        return status.USAGE
    except click.ClickException as error:
        error.show()
        return status.FAILED
    except status.CommandError as error:
        click.echo(str(error), err=True)
        return error.status
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted", err=True)
        return status.INTERRUPTED
    except BrokenPipeError:
        sys.stderr.close()
        return status.OK
