"""Command groups that import a command only when it is run, so that help costs nothing but click."""

from collections.abc import Iterable, Sequence
from importlib import import_module
from typing import Any, Final

import click


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word that another one was probably meant to be, if any."""
    from difflib import get_close_matches

    found = get_close_matches(word.lower(), list(known), n=1, cutoff=0.6)
    return found[0] if found else None


OPTIONS: Final = ("--store", "--key-file", "--vault", "--cold", "--json")
"""What belongs to commands, and is often written before them."""


def said_again(words: Sequence[str]) -> str:
    """Arguments as one would type them, but for addresses, which may hold a password."""
    import shlex

    return " ".join("…" if "://" in word else shlex.quote(word) for word in words)


def command_first(words: Sequence[str]) -> list[str]:
    """The same words with the options before the command behind it; none if no command follows them."""
    rest, moved = list(words), list[str]()
    while rest and rest[0].startswith("-"):
        moved.append(rest.pop(0))
        if moved[-1] in OPTIONS and moved[-1] != "--json" and rest:
            moved.append(rest.pop(0))
    return [*rest, *moved] if rest else []


class LazyGroup(click.Group):
    """A group whose commands are places (`module:name`) with a line of help each, shown in the order given."""

    def __init__(self, *args: Any, places: dict[str, tuple[str, str]], **options: Any) -> None:
        super().__init__(*args, **options)
        self.places = places

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse; an option of commands that stands before the command is told with where it belongs."""
        given = list(args)
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as wrong:
            meant = self.meant(ctx, command_first(given)) if wrong.option_name in OPTIONS else None
            if meant is None:
                raise
            told = f"{wrong.option_name} comes after the command. Did you mean: {said_again(meant)}"
            raise click.UsageError(told, ctx) from wrong

    def meant(self, ctx: click.Context, words: list[str]) -> list[str] | None:
        """The whole command line that was probably meant by these words, if they begin with a command."""
        return [*ctx.command_path.split(), *words] if words and words[0] in self.places else None

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
            meant = self.meant(ctx, args)
            if meant is not None:
                raise click.UsageError(
                    f"No such command {args[0]!r}. Did you mean: {said_again(meant)}", ctx
                ) from wrong
            near = nearest(args[0], (name for name, (_, line) in self.places.items() if line))
            if near is None:
                raise
            raise click.UsageError(f"No such command {args[0]!r}. Did you mean {near!r}?", ctx) from wrong

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing any."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in self.places.items() if line])
