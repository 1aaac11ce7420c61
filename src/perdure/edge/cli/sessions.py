"""`perdure sessions …`: what there is, where each command lives."""

from typing import Final

from perdure.edge.cli.lazy import LazyGroup

COMMANDS: Final = {
    "list": ("listing:list_sessions", "Find sessions."),
    "show": ("listing:show", "Show everything about one session."),
    "history": ("reading:history", "Read a session's turns or events."),
    "tail": ("reading:tail", "Follow a session, or all, as they change."),
    "checkpoint": ("checkpoints:checkpoint", "Take a checkpoint, or list them."),
    "resume": ("checkpoints:resume", "Wake a session, or go on from a checkpoint."),
    "branch": ("branching:branch", "Start a new session from a point of another."),
    "diff": ("branching:diff", "Compare vars and scratchpads."),
    "merge": ("branching:merge", "Take one session's changes over into another."),
    "export": ("moving:export", "Write a session as JSON lines."),
    "import": ("moving:import_file", "Rebuild sessions from an export."),
    "recover": ("recovering:recover", "Close turns whose writer died."),
    "erase": ("upkeep:erase", "Remove a session for good."),
    "verify": ("upkeep:verify", "Check every byte against the hash chain."),
}

sessions = LazyGroup(
    "sessions",
    places=COMMANDS,
    help="""Look into a store and work on its sessions.

    A SESSION is its name (a thread or session id of your framework's), its id, any beginning of the id that no other
    shares, or the word latest: the one that was active last.
    """,
)
