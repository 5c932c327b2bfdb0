"""``mqbroker completion bash|zsh|fish``."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class


@click.command(epilog="Example: source <(mqbroker completion bash)")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the completion script for a shell.

    bash and zsh: source <(mqbroker completion bash); fish: mqbroker completion fish | source.
    """
    from mqbroker.cli.root import root

    generator = get_completion_class(shell)
    assert generator is not None
    click.echo(generator(root, {}, "mqbroker", "_MQBROKER_COMPLETE").source())
