"""`perdure`: the root of the command line, and the guard around everything in it."""

import sys
from collections.abc import Sequence
from typing import Any, Final

import click

from perdure.edge.cli import exits
from perdure.edge.cli.lazy import LazyGroup

COMMANDS: Final = {
    "demo": ("demo.command:demo", "Watch a session survive a crash; no key needed."),
    "serve": ("serve:serve", "Serve a store over HTTP."),
    "sessions": ("sessions:sessions", "Look into a store and work on its sessions."),
    "talk": ("talk:talk", "Talk to a session's model, and watch the answer come."),
    "steer": ("talk:steer", "Change what a session is doing right now."),
    "follow-up": ("talk:follow_up", "Have something considered in a session's next turn."),
    "interrupt": ("talk:interrupt", "Stop a session's turn; what it has said stays."),
    "approvals": ("talk:approvals", "Show the calls of tools that wait for a person, and answer for them."),
    "memory": ("memory:memory", "Keep and find what agents remember across sessions."),
    "import": ("importing:import_from", "Bring conversations over from a framework's own store."),
    "sweep": ("sweep:sweep", "See to the sessions whose time has come."),
    "archive": ("archive:archive", "Put ended sessions away, and take them back."),
    "backup": ("backup:backup", "Copy a store while it is in use, verified."),
    "restore": ("restore:restore", "Bring a store back from a backup."),
    "upgrade": ("upgrade:upgrade", "Bring a store to today's format."),
    "blobs": ("blobs:blobs", "Keep files beside the sessions that point to them."),
    "keys": ("keys:keys", "Look after the keys of a sealed store."),
    "principals": ("principals:principals", "Say who may come in, and with which keys."),
    "prices": ("prices:prices", "Show what models cost, and bring that up to date."),
    "audit": ("audit:audit", "Show, verify and export what was done by whom."),
    "doctor": ("doctor:doctor", "Check this machine and a store; say what to do."),
}


class Root(LazyGroup):
    """The outermost group: its `main` turns whatever happens into an exit code."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        **extra: Any,
    ) -> Any:
        """Run the arguments and exit. Output that the terminal's encoding lacks is escaped, not fatal."""
        given = list(sys.argv[1:] if args is None else args)
        exits.open_what_is_closed()
        for stream in (sys.stdout, sys.stderr):
            if hasattr(stream, "reconfigure"):
                stream.reconfigure(errors="backslashreplace")
        run = super().main
        sys.exit(
            exits.guarded(
                lambda: run(given, prog_name or "perdure", complete_var, standalone_mode=False, **extra), given
            )
        )

    def meant(self, ctx: click.Context, words: list[str]) -> list[str] | None:
        """As for any group; the commands of `sessions` are often named without it."""
        from perdure.edge.cli.sessions import COMMANDS as OF_SESSIONS

        found = super().meant(ctx, words)
        return ["perdure", "sessions", *words] if found is None and words and words[0] in OF_SESSIONS else found

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; a broken pipe passes click by."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError as left:
            raise exits.ReaderLeft from left


def _version(ctx: click.Context, _: click.Parameter, asked: bool) -> None:
    if asked and not ctx.resilient_parsing:
        from perdure import __version__

        click.echo(f"perdure {__version__}")
        ctx.exit()


perdure = Root(
    "perdure",
    places=COMMANDS,
    params=[
        click.Option(
            ["--version"], is_flag=True, is_eager=True, expose_value=False, callback=_version, help="Show the version."
        )
    ],
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    help="Durable sessions for AI agents: event-sourced, crash-safe, one file.",
    epilog="Exit codes: 0 done, 1 defect, 2 caller, 3 not found, 4 conflict, 5 world. Manual: docs/CLI.md.",
)
