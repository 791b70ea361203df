"""``pratique completion``."""

from __future__ import annotations

from collections.abc import Mapping

import click
from click.shell_completion import BashComplete, FishComplete, ShellComplete, ZshComplete

from pratique_cli.main import COMPLETION_VARIABLE, root

EPILOG = """\b
Examples:
  eval "$(pratique completion bash)"               in ~/.bashrc; bash from 4.4 on
  eval "$(pratique completion zsh)"                in ~/.zshrc, after compinit
  pratique completion fish >~/.config/fish/completions/pratique.fish
"""


_KINDS: Mapping[str, type[ShellComplete]] = {"bash": BashComplete, "zsh": ZshComplete, "fish": FishComplete}


@click.command("completion", epilog=EPILOG)
@click.argument("shell", type=click.Choice(list(_KINDS)))
def command(shell: str) -> None:
    """Write the script that completes commands, flags, formats and controllers in your shell, to standard output."""
    # Not its source(), which asks the bash of this machine for its version: the script may be for another one.
    script = ShellComplete.source(_KINDS[shell](root, {}, "pratique", COMPLETION_VARIABLE))
    if shell == "fish":
        # click's script cuts off what follows the first comma of a value or its summary; lists of names have commas.
        script = script.replace('(string split "," ', '(string split --max 1 "," ')
    click.echo(script, nl=not script.endswith("\n"))
