"""Command groups that import a command only when it is run, so that help costs nothing but click."""

from collections.abc import Iterable
from importlib import import_module
from typing import Any

import click


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word that another one was probably meant to be, if any."""
    from difflib import get_close_matches

    found = get_close_matches(word.lower(), list(known), n=1, cutoff=0.6)
    return found[0] if found else None


class LazyGroup(click.Group):
    """A group whose commands are places (`module:name`) with a line of help each, shown in the order given."""

    def __init__(self, *args: Any, places: dict[str, tuple[str, str]], **options: Any) -> None:
        super().__init__(*args, **options)
        self.places = places

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names, as the table orders them."""
        return list(self.places)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command itself; hidden ones (with no help) are found too."""
        if cmd_name not in self.places:
            return None
        module, _, name = self.places[cmd_name][0].partition(":")
        command: click.Command = getattr(import_module(f"perdure.edge.cli.{module}"), name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that is meant; a word that is none is told with the one it resembles."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as wrong:
            near = nearest(args[0], (name for name, (_, line) in self.places.items() if line))
            if near is None:
                raise
            raise click.UsageError(f"No such command {args[0]!r}. Did you mean {near!r}?", ctx) from wrong

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing any."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in self.places.items() if line])
