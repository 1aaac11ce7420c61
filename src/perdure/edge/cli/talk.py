"""`talk`, `steer`, `follow-up`, `interrupt` and `approvals`: conversations with models, and stepping into them."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import click
from msgspec import to_builtins
from msgspec.structs import replace

from perdure.core.errors import AlreadyExists, Invalid, NotAStore, NotFound, TurnRefused
from perdure.core.session import commands as do
from perdure.edge.cli import documents, exits
from perdure.edge.cli.opening import bringing, opened, session_of
from perdure.edge.cli.options import json_option, store_option
from perdure.edge.cli.spaces import settings_given
from perdure.edge.cli.text import clean, one_line

if TYPE_CHECKING:
    from perdure import Perdure, Session
    from perdure.compose.talking import Talk
    from perdure.core.talk.turning import TurnEvent, TurnOutcome

AUTO: Final = "auto"
KEYS: Final = {
    "anthropic": ("anthropic", "ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL"),
    "openai": ("openai-responses", "OPENAI_API_KEY", "OPENAI_BASE_URL"),
}
"""Providers whose keys may stand in the environment, under the names that their own tools read."""


@click.command()
@click.argument("session")
@click.argument("text", required=False)
@store_option
@json_option
@click.option("--new", is_flag=True, help="Begin a session of this name, and the store if it is missing.")
@click.option("--continue", "goes_on", is_flag=True, help="Say nothing: go on where a turn broke or waits.")
@click.option("--model", help="Which model answers; the session's, or the built-in one, without it.")
@click.option("--memory", "agent", metavar="AGENT", help="Switch memory on: from now on, show what AGENT remembers.")
@click.option("--no-memory", "forgetful", is_flag=True, help="Switch memory off.")
def talk(
    session: str,
    text: str | None,
    store: str,
    as_json: bool,
    new: bool,
    goes_on: bool,
    model: str | None,
    agent: str | None,
    forgetful: bool,
) -> None:
    """Say TEXT to a session's model and watch the answer come. Without TEXT, every line that is typed is said.

    Models are those that perdure.toml has upstreams for, as for a server. Without any there are the built-in one, which
    needs no key and does not think, and anthropic/MODEL and openai/MODEL, if the environment has ANTHROPIC_API_KEY or
    OPENAI_API_KEY. Memory stays as the session has it, unless --memory or --no-memory says so.
    """
    if agent is not None and forgetful:
        raise click.UsageError("give --memory or --no-memory, not both")
    if goes_on and (new or text is not None):
        raise click.UsageError("--continue goes on with what there is; give it without TEXT and --new")
    if text is not None and not text.strip():
        raise click.UsageError("TEXT is empty; say something, or --continue to go on where the session stopped")
    once, status, missing = text is not None or goes_on, "", dict[str, Invalid]()
    models = talk_given(missing)
    how: dict[str, Any] = {"talk": models, "memory": settings_given()}
    with _advice(session), bringing(store, **how) if new else opened(store, read_only=False, **how) as db:
        found = db.create(name=session) if new else session_of(db, session)
        _recall(found, agent, forgetful)
        _must_have_key(models, model or found.state().config.model, missing)
        for said in [text] if once else _lines(as_json):
            outcome = _turn(found, said, model, as_json)
            status = outcome.status
            if as_json:
                (documents.emit if once else documents.emit_line)(document_of(outcome))
    if once and status not in ("finished", "tools", "parked"):
        click.get_current_context().exit(exits.CALLER)


def _recall(session: "Session", agent: str | None, forgetful: bool) -> None:
    """Have a session shown what an agent remembers from now on, or nothing; what it is shown besides stays."""
    if agent is None and not forgetful:
        return
    from perdure.core.session.origin import Recall

    before = session.state().config.memory or Recall()
    after = replace(before, enabled=False) if forgetful else replace(before, enabled=True, agent=agent)
    session.configure(config={"memory": to_builtins(after)})


@contextmanager
def _advice(name: str) -> Iterator[None]:
    """Say in options what there is to do about a session that is there, or is not."""
    try:
        yield
    except AlreadyExists as there:
        told = f"a session named {name!r} is there already; leave --new out to talk to it, or choose another name"
        raise AlreadyExists(told, **there.fields) from there
    except NotFound as missing:
        if missing.fields.get("session") != name:
            raise
        told = f"{missing.message}; perdure talk {name} --new begins one of this name"
        raise NotFound(told, **missing.fields) from missing
    except NotAStore as missing:
        raise NotAStore(f"{missing.message}; --new begins one", **missing.fields) from missing


def _must_have_key(models: "Talk", model: str | None, missing: dict[str, Invalid]) -> None:
    """Raise what is wrong with the key of the upstream that is asked; others need none now."""
    if not missing or model == AUTO:
        return
    from perdure.compose.pricing import loaded
    from perdure.core.talk.routes import route

    asked = route(models.models, model, loaded()).candidates[0].provider
    if asked in missing:
        raise missing[asked]


def talk_given(missing: dict[str, Invalid] | None = None) -> "Talk":
    """How sessions talk here: as a server would that is started here; without upstreams, to the built-in model, and to
    those that the environment has a key for. What is wrong with keys is put into `missing`, if that is given.
    """
    from perdure.core.talk.routes import Upstream
    from perdure.edge.http.configuring import configure
    from perdure.edge.http.talks import talk_of

    settings = configure().settings
    found = talk_of(settings, missing=missing)
    if settings.upstreams:
        return found
    upstreams = dict(found.models.upstreams)
    for name, (kind, key, base) in KEYS.items():
        if os.environ.get(key):
            upstreams[name] = Upstream(
                name=name,
                kind=kind,  # type: ignore[arg-type]
                key=os.environ[key],
                base_url=os.environ.get(base, ""),
            )
    return replace(found, models=replace(found.models, upstreams=upstreams))


def _lines(as_json: bool) -> Iterator[str]:
    """What is typed, line by line, until the end of the input."""
    people = sys.stdin.isatty() and not as_json
    while True:
        if people:
            click.echo("> ", nl=False, err=True)
        line = sys.stdin.readline()
        if not line:
            if people:
                click.echo(err=True)
            return
        if line.strip():
            yield line.rstrip("\n")


def _turn(session: "Session", said: str | None, model: str | None, as_json: bool) -> "TurnOutcome":
    """One turn, shown as it goes."""
    from perdure.core.talk.turning import TurnBroke, TurnEnded

    begun = False
    for event in session.stream(said, model=model):
        if not as_json:
            begun = _show(event) or begun
        if isinstance(event, TurnEnded):
            if not as_json:
                _told(session, event.outcome)
            return event.outcome
        if isinstance(event, TurnBroke):
            from perdure.edge.client.talking import error_of

            if begun:
                click.echo()
            raise error_of(event) or TurnRefused(event.detail, turn=event.turn)
    raise TurnRefused("the turn ended without a word; look at the session's history")


def _show(event: "TurnEvent") -> bool:
    """Show an event; whether there were words in it."""
    from perdure.core.talk.turning import PieceCame, ToolRan, words_in

    if isinstance(event, PieceCame):
        words = words_in(event.piece)
        click.echo(clean(words), nl=False)
        sys.stdout.flush()
        return bool(words)
    if isinstance(event, ToolRan):
        click.echo(f"[{one_line(event.name)} {event.status}]", err=True)
    return False


def _told(session: "Session", outcome: "TurnOutcome") -> None:
    """What stands at the end of a turn."""
    click.echo()
    for item in outcome.waiting:
        call = f"{one_line(item.name)} {one_line(documents.spell(item.arguments))}"
        if item.approval:
            name = one_line(str(session.id))
            click.echo(f"waits for a person: {call}; perdure approvals {name} --allow {one_line(item.id)}", err=True)
        else:
            click.echo(f"waits for the result of a tool that nobody here runs: {call}", err=True)
    if outcome.status == "interrupted":
        click.echo(f"interrupted: {one_line(outcome.reason)}", err=True)


def document_of(outcome: "TurnOutcome") -> dict[str, Any]:
    """What came of a turn, for programs."""
    from perdure.core.talk.content import documents_of

    return {
        "session": outcome.session,
        "turn": outcome.turn,
        "version": outcome.version,
        "status": outcome.status,
        "text": outcome.text,
        "content": documents_of(outcome.content),
        "model": outcome.model,
        "stop": outcome.stop,
        "tokens_in": outcome.usage.input,
        "tokens_out": outcome.usage.output,
        "cost": outcome.cost,
        "estimated": outcome.estimated,
        "reason": outcome.reason,
        "waiting": [_waiting(item) for item in outcome.waiting],
    }


def _waiting(item: Any) -> dict[str, Any]:
    return {"call": item.id, "name": item.name, "arguments": item.arguments, "approval": item.approval}


@click.command()
@click.argument("session")
@click.argument("text")
@store_option
@json_option
def steer(session: str, text: str, store: str, as_json: bool) -> None:
    """Change what a session is doing right now: a turn that runs, wherever, is cut short and goes on with TEXT."""
    with opened(store, read_only=False) as db:
        found = session_of(db, session)
        version = found.steer(text)
    _noted(found, version, as_json, "steered")


@click.command("follow-up")
@click.argument("session")
@click.argument("text")
@store_option
@json_option
def follow_up(session: str, text: str, store: str, as_json: bool) -> None:
    """Have TEXT considered in a session's next turn."""
    with opened(store, read_only=False) as db:
        found = session_of(db, session)
        version = found.follow_up(text)
    _noted(found, version, as_json, "followed up")


@click.command()
@click.argument("session")
@store_option
@json_option
@click.option("--reason", default="interrupted", help="Why; the log keeps it.")
def interrupt(session: str, store: str, as_json: bool, reason: str) -> None:
    """Stop a session's turn, wherever it runs or waits. What it has said stays; `talk --continue` goes on with it."""
    with opened(store, read_only=False) as db:
        found = session_of(db, session)
        stopped = found.interrupt(reason)
    if as_json:
        documents.emit({"session": str(found.id), "interrupted": stopped})
    else:
        click.echo(f"interrupted session {found.id}" if stopped else f"no turn is open in session {found.id}")


def _noted(session: "Session", version: int, as_json: bool, what: str) -> None:
    if as_json:
        documents.emit({"session": str(session.id), "version": version})
    else:
        click.echo(f"{what} session {session.id}, now at version {version}")


@click.command()
@click.argument("session")
@store_option
@json_option
@click.option("--allow", metavar="CALL", help="Let this call run.")
@click.option("--deny", metavar="CALL", help="Do not let this call run.")
@click.option("--note", default="", help="Why; the model reads it when the call is denied.")
def approvals(session: str, store: str, as_json: bool, allow: str | None, deny: str | None, note: str) -> None:
    """Show the calls that wait for a person, or answer for one.

    The turn goes on where its tools are, when it is asked to there: by send() without anything to say, or over HTTP by
    POST …/messages without content.
    """
    if allow is not None and deny is not None:
        raise click.UsageError("give --allow or --deny, not both")
    with opened(store, read_only=False) as db:
        found = session_of(db, session)
        if (call := allow or deny) is not None:
            version = _answered(db, found, do.Approve(call=call, allowed=allow is not None, note=note))
            _noted(found, version, as_json, "allowed in" if allow is not None else "denied in")
            if not as_json and not found.approvals():
                click.echo("it goes on with send() without words where its tools are", err=True)
            return
        waiting = [_waiting(item) for item in found.approvals()]
    if as_json:
        documents.emit({"session": str(found.id), "waiting": waiting})
        return
    for item in waiting:
        arguments = one_line(documents.spell(item["arguments"]))
        click.echo(f"{one_line(item['call'])}  {one_line(item['name'])} {arguments}")
    if not waiting:
        click.echo("nothing waits for a person")


def _answered(db: "Perdure", session: "Session", answer: do.Approve) -> int:
    """The answer in the log; the call itself is run where its tool is, which is not here."""
    from perdure.core.session.ids import SessionId
    from perdure.waiting import drive

    return drive(db.aio._services.sessions.handle(SessionId(session.id), answer)).version
