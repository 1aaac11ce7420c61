"""`perdure memory …`: what is remembered across sessions, kept, found, changed and forgotten."""

from typing import Any, Final

import click
import msgspec

from perdure.core.memory.parts import Memory, MemoryType, Status
from perdure.edge.cli import documents
from perdure.edge.cli.lazy import LazyGroup
from perdure.edge.cli.opening import bringing, opened
from perdure.edge.cli.options import json_option, pair, since, store_option, until, when
from perdure.edge.cli.spaces import (
    STATUSES,
    WORDS,
    memory_of,
    settings_given,
    source_of,
    space_of,
    space_option,
    tell_of_others,
)
from perdure.edge.cli.text import day_and_time, moment, one_line

COMMANDS: Final = {
    "add": ("memory:add", "Keep a memory."),
    "search": ("memory:search", "Find memories by words and by sense."),
    "show": ("memory:show", "Show everything about one memory."),
    "list": ("memory:list_memories", "List memories as they were kept."),
    "history": ("memory:history", "Show every form that a memory has had."),
    "update": ("memory:update", "Change a memory; other words take its place."),
    "forget": ("memory:forget", "Take memories out of the log for good."),
    "archive": ("memory:archive", "Put memories away."),
    "quarantine": ("memory:quarantine", "Keep memories from being found or shown to models."),
    "restore": ("memory:restore", "Bring back what was archived or quarantined."),
    "spaces": ("remembering:spaces", "List the spaces there are."),
    "stats": ("remembering:stats", "Show what a space holds and was asked."),
    "plan": ("remembering:plan", "Show the plan of a space, or put it on another."),
    "consolidate": ("remembering:consolidate", "Bring a space into order; it can be undone."),
    "reembed": ("remembering:reembed", "Make vectors that the present embedder has not made yet."),
    "runs": ("remembering:runs", "List consolidations."),
    "steps": ("remembering:steps", "Show what a consolidation did, step by step."),
    "undo": ("remembering:undo", "Take back what a consolidation did."),
    "extract": ("learning:extract", "Keep what a session has taught."),
    "propose": ("learning:propose", "Propose a memory to others."),
    "proposals": ("learning:proposals", "List what waits for a review."),
    "review": ("learning:review", "Accept or reject a proposal."),
    "auto-accept": ("learning:auto_accept", "Say whether what passes all gates needs a review."),
    "source": ("sourcing:source", "Work on all that came from one source."),
    "why": ("sourcing:why", "Show what the answer of a turn rests on."),
    "import": ("remembering:import_file", "Keep what a file says: an export, objects, or lines of text."),
    "export": ("remembering:export", "Write memories as JSON lines."),
}
TYPES: Final = tuple(kind.value for kind in MemoryType)

memory = LazyGroup(
    "memory",
    places=COMMANDS,
    help="""Keep and find what agents remember across sessions.

    Memories are kept in spaces: the vault of one agent (--agent), a clade of siblings (--clade), or --lethe, which is
    everybody's. A MEMORY is named by its id, or by any beginning of it that no other in the space shares.
    """,
)


def document_of(item: Memory) -> dict[str, Any]:
    """A memory for programs."""
    times = {name: getattr(item, name) for name in ("recorded_at", "valid_from", "valid_to")}
    return {
        "memory": item.id,
        "type": item.type.value,
        "content": item.content,
        "importance": item.importance,
        "metadata": item.metadata,
        "author": item.author,
        "agent": item.agent,
        "writer": item.writer,
        "source": msgspec.structs.asdict(item.source),
        "trust": item.trust,
        "flags": list(item.flags),
        "subjects": list(item.subjects),
        "thread": item.thread,
        "status": item.status.value,
        "superseded_by": item.superseded_by or None,
        "supersedes": list(item.supersedes),
        **{name: None if time is None else moment(time) for name, time in times.items()},
        "accesses": item.accesses,
        "cited": item.cited,
        "unused": item.unused,
        "run": item.run or None,
        "version": item.version,
    }


def show_memories(items: list[Memory], now: int, *, nothing: str = "no memories") -> None:
    """A table for people, who are told what is over by now, or has not begun."""
    from perdure.edge.cli import output

    console = output.screen()
    if not items:
        console.print(nothing)
        return
    rows = [(one.id, one.type.value, f"{one.importance:.2f}", _standing(one, now), _whole(one)) for one in items]
    console.print(output.table(["memory", "type", "importance", "status", "content"], rows, flexible=("content",)))


def _standing(item: Memory, now: int) -> str:
    """Its status; of one that counts, whether it is so now."""
    if item.status is not Status.LIVE or item.holds(now):
        return item.status.value
    return f"{item.status.value}, {'over' if item.valid_to is not None and item.valid_to <= now else 'not begun'}"


def _whole(item: Memory) -> str:
    author = f"{item.author}: " if item.author else ""
    return f"{'⚠ ' if item.flags else ''}{author}{item.content}"


# ── keeping ──


@click.command()
@click.argument("text")
@space_option
@store_option
@json_option
@click.option("--type", "memory_type", type=click.Choice(TYPES), default="fact", show_default=True, help="What it is.")
@click.option("--importance", type=click.FloatRange(0, 1), default=0.5, show_default=True, help="How much it matters.")
@click.option("--meta", multiple=True, type=pair, metavar="KEY=VALUE", help="Metadata; may be repeated.")
@click.option("--author", default="", help="Who said it.")
@click.option("--subject", "subjects", multiple=True, metavar="PERSON", help="Whom it is about; goes when they go.")
@click.option("--session", default="", metavar="SESSION", help="The session it comes from.")
@click.option("--from", "valid_from", type=since, metavar="TIME", help="True since: ISO 8601, or 2h, 7d for ago.")
@click.option("--until", "valid_to", type=until, metavar="TIME", help="True until: ISO 8601, or 2h, 7d from now.")
@click.option("--supersedes", multiple=True, metavar="MEMORY", help="No longer true because of it; may be repeated.")
@click.option("--key", help="Idempotency key: the same one keeps it once.")
@click.option("--new", is_flag=True, help="Make the store, too, if there is none.")
def add(text: str, store: str, as_json: bool, new: bool, **words: Any) -> None:
    """Keep TEXT as a memory, said by a person."""
    settings = settings_given()
    hint = ", or make one with --new"
    with bringing(store, memory=settings) if new else opened(store, read_only=False, hint=hint, memory=settings) as db:
        space = space_of(db, words)
        words["metadata"] = dict(words.pop("meta"))
        words["source"] = {"kind": "user", "session": source_of(db, words.pop("session"))}
        words["supersedes"] = [memory_of(space, word).id for word in words["supersedes"]]
        kept, now = space.add(text, **words), db.now()
    _note(kept, now)
    if as_json:
        documents.emit(document_of(kept))
    else:
        click.echo(f"kept {kept.id} in {one_line(space.space)}")


def _note(kept: Memory, now: int) -> None:
    """Say on stderr what whoever kept it may not have meant."""
    from perdure.core.memory.phrases import CREDENTIALS, ENCODED, HIDDEN

    if kept.valid_to is not None and kept.valid_to <= now:
        over = f"it is over already, since {day_and_time(kept.valid_to)}: only a search --at a time before finds it"
        click.echo(f"note: {over}; update --until changes that", err=True)
    if CREDENTIALS in kept.flags:
        told = f"it reads as if a password or a key were in it ({CREDENTIALS}); perdure memory forget takes it out"
        click.echo(f"note: {told} for good", err=True)
    if unread := [flag for flag in kept.flags if flag in (HIDDEN, ENCODED)]:
        click.echo(f"note: not all that is in it is plain to read ({', '.join(unread)})", err=True)
    if orders := [flag for flag in kept.flags if flag not in (HIDDEN, ENCODED, CREDENTIALS)]:
        click.echo(f"note: it reads as if meant for a model to obey ({', '.join(orders)})", err=True)


@click.command()
@click.argument("name", metavar="MEMORY")
@space_option
@store_option
@json_option
@click.option("--content", help="Other words; what it said stays known as its history.")
@click.option("--type", "memory_type", type=click.Choice(TYPES), help="What it is.")
@click.option("--importance", type=click.FloatRange(0, 1), help="How much it matters.")
@click.option("--meta", multiple=True, type=pair, metavar="KEY=VALUE", help="Metadata in place of what there is.")
@click.option("--from", "valid_from", type=since, metavar="TIME", help="True since: ISO 8601, or 2h, 7d for ago.")
@click.option("--until", "valid_to", type=until, metavar="TIME", help="True until: ISO 8601, or 2h, 7d from now.")
@click.option("--reason", default="", help="Why; the log keeps it.")
def update(name: str, store: str, as_json: bool, **words: Any) -> None:
    """Change a memory. Other words make another memory, which takes its place."""
    with opened(store, read_only=False, memory=settings_given()) as db:
        space = space_of(db, words)
        meta = words.pop("meta")
        found = memory_of(space, name)
        changed = space.update(found.id, metadata=dict(meta) if meta else None, **words)
    if as_json:
        documents.emit(document_of(changed))
    elif changed.id == found.id:
        click.echo(f"changed {changed.id}")
    else:
        click.echo(f"kept {changed.id} in place of {found.id}")


@click.command()
@click.argument("names", metavar="MEMORY...", nargs=-1, required=True)
@space_option
@store_option
@json_option
@click.option("--reason", default="forgotten", show_default=True, help="Why; the log keeps it.")
@click.option("--yes", is_flag=True, help="Do not ask.")
def forget(names: tuple[str, ...], store: str, as_json: bool, reason: str, yes: bool, **words: Any) -> None:
    """Take memories out of the log for good, with all forms they had, what gave way to them, and what says the same."""
    with opened(store, read_only=False, memory=settings_given()) as db:
        space = space_of(db, words)
        found = [memory_of(space, name) for name in names]
        if not yes:
            _ask(found)
        count = space.forget(*(one.id for one in found), reason=reason)
    if as_json:
        documents.emit({"space": space.space, "forgotten": count})
    else:
        click.echo(f"forgot {_memories(count)} of {one_line(space.space)}")


def _ask(found: list[Memory]) -> None:
    what = f'"{one_line(found[0].content, 60)}"' if len(found) == 1 else _memories(len(found))
    try:
        sure = click.confirm(
            f"Forget {what} for good, with what it took the place of and what says the same?", err=True
        )
    except click.Abort:
        sure = False
    if not sure:
        raise click.UsageError("nothing was forgotten; confirm with y, or pass --yes")


def _memories(count: int) -> str:
    return "1 memory" if count == 1 else f"{count:,} memories"


def _moving(name: str, done: str, told: str) -> click.Command:
    """A command that moves memories to another status."""

    @click.command(name, help=told)
    @click.argument("names", metavar="MEMORY...", nargs=-1, required=True)
    @space_option
    @store_option
    @json_option
    @click.option("--reason", default="", help="Why; the log keeps it.")
    def move(names: tuple[str, ...], store: str, as_json: bool, reason: str, **words: Any) -> None:
        with opened(store, read_only=False, memory=settings_given()) as db:
            space = space_of(db, words)
            ids = [memory_of(space, word).id for word in names]
            count = getattr(space, name)(*ids, reason=reason)
        if as_json:
            documents.emit({"space": space.space, "moved": count})
        else:
            click.echo(f"{done} {_memories(count)} of {one_line(space.space)}")

    return move


archive = _moving("archive", "archived", "Put memories away: they are kept, and found only when asked for.")
quarantine = _moving("quarantine", "quarantined", "Keep memories from being found or shown to models.")
restore = _moving("restore", "restored", "Bring back what was archived or quarantined.")


# ── finding ──


@click.command()
@click.argument("query")
@space_option
@store_option
@json_option
@click.option("--top", "top_k", type=click.IntRange(1, 1000), default=10, show_default=True, help="How many.")
@click.option("--type", "types", multiple=True, type=click.Choice(TYPES), help="Only these; may be repeated.")
@click.option("--status", "statuses", multiple=True, type=click.Choice(STATUSES), help="Others than live ones.")
@click.option("--min-importance", type=click.FloatRange(0, 1), help="Only those that count at least so much by now.")
@click.option("--meta", multiple=True, type=pair, metavar="KEY=VALUE", help="Only with this metadata.")
@click.option("--session", "sessions", multiple=True, metavar="SESSION", help="Only what came from this session.")
@click.option("--at", type=when, metavar="TIME", help="What was true then: ISO 8601, or 2h, 7d for ago.")
@click.option("--known-at", type=when, metavar="TIME", help="Only what was kept by then.")
def search(query: str, store: str, as_json: bool, **words: Any) -> None:
    """Find the memories that fit QUERY best. Looking from here does not count as use."""
    with opened(store, read_only=True, memory=settings_given()) as db:
        space = space_of(db, words)
        words["metadata"], words["statuses"] = dict(words.pop("meta")), words["statuses"] or (Status.LIVE,)
        words["sessions"] = [source_of(db, word) for word in words["sessions"]]
        found = space.search(query, count=False, **words)
        if not found:
            tell_of_others(db, space.space)
    for lacking in dict.fromkeys(one.lacking for one in found if one.lacking):
        click.echo(f"note: found {lacking}", err=True)
    if as_json:
        items = [
            {
                "score": one.score,
                "importance_now": one.importance,
                "age": one.age,
                "signals": one.signals,
                "lacking": one.lacking or None,
                **document_of(one.memory),
            }
            for one in found
        ]
        documents.emit({"space": space.space, "memories": items})
        return
    from perdure.edge.cli import output

    console = output.screen()
    if not found:
        console.print("nothing fits")
        return
    rows = [
        (one.memory.id, f"{one.score:.3f}", one.memory.type.value, f"{one.importance:.2f}", one.age, _whole(one.memory))
        for one in found
    ]
    columns = ["memory", "score", "type", "counts", "age", "content"]
    console.print(output.table(columns, rows, flexible=("content",)))


@click.command()
@click.argument("name", metavar="MEMORY")
@space_option
@store_option
@json_option
def show(name: str, store: str, as_json: bool, **words: Any) -> None:
    """Show everything about one memory."""
    with opened(store, read_only=True, memory=WORDS) as db:
        found = memory_of(space_of(db, words), name)
    document = document_of(found)
    if as_json:
        documents.emit(document)
        return
    from perdure.edge.cli import output

    plain = {key: value for key, value in document.items() if value not in (None, "", [], {}, 0)}
    plain["source"] = {key: value for key, value in document["source"].items() if value}
    spelled = ((key, value if isinstance(value, str) else documents.spell(value)) for key, value in plain.items())
    output.screen().print(output.facts(spelled))


@click.command("list")
@space_option
@store_option
@json_option
@click.option("--type", "types", multiple=True, type=click.Choice(TYPES), help="Only these; may be repeated.")
@click.option("--status", "statuses", multiple=True, type=click.Choice(STATUSES), help="Others than live ones.")
@click.option("--session", default="", metavar="SESSION", help="Only what came from this session.")
@click.option("--limit", type=click.IntRange(1), default=100, show_default=True, help="At most so many.")
@click.option("--all", "everything", is_flag=True, help="All of them.")
def list_memories(store: str, as_json: bool, limit: int, everything: bool, **words: Any) -> None:
    """List memories in the order in which they were kept."""
    with opened(store, read_only=True, memory=WORDS) as db:
        space = space_of(db, words)
        words["statuses"] = words["statuses"] or (Status.LIVE,)
        words["session"] = source_of(db, words["session"])
        found = list[Memory]()
        for one in space.list(**words):
            if len(found) == limit and not everything:
                click.echo(f"there are more than {limit:,}; --all shows them", err=True)
                break
            found.append(one)
        if not found:
            tell_of_others(db, space.space)
        now = db.now()
    if as_json:
        documents.emit({"space": space.space, "memories": [document_of(one) for one in found]})
    else:
        show_memories(found, now)


@click.command()
@click.argument("name", metavar="MEMORY")
@space_option
@store_option
@json_option
def history(name: str, store: str, as_json: bool, **words: Any) -> None:
    """Show every form that a memory has had, oldest first: what it superseded, itself, and what superseded it."""
    with opened(store, read_only=True, memory=WORDS) as db:
        space = space_of(db, words)
        found = space.history(memory_of(space, name).id)
    if as_json:
        documents.emit({"space": space.space, "memories": [document_of(one) for one in found]})
        return
    from perdure.edge.cli import output

    rows = [(one.id, day_and_time(one.recorded_at), _span(one), one.status.value, one.content) for one in found]
    columns = ["memory", "kept", "true", "status", "content"]
    output.screen().print(output.table(columns, rows, flexible=("content",)))


def _span(item: Memory) -> str:
    """When it was true."""
    since = item.recorded_at if item.valid_from is None else item.valid_from
    return f"{day_and_time(since)[:10]} – {'' if item.valid_to is None else day_and_time(item.valid_to)[:10]}"
