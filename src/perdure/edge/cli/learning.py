"""`memory extract|propose|proposals|review|auto-accept`: what sessions teach, and what others are to know."""

from typing import TYPE_CHECKING, Any

import click

from perdure.edge.cli import documents
from perdure.edge.cli.memory import document_of, show_memories
from perdure.edge.cli.opening import opened, session_of
from perdure.edge.cli.options import json_option, store_option
from perdure.edge.cli.sourcing import turns_of
from perdure.edge.cli.spaces import WORDS, memory_of, proposal_of, settings_given, space_of, space_option
from perdure.edge.cli.text import moment, one_line

if TYPE_CHECKING:
    from perdure.core.memory.shelf import Proposal


@click.command()
@click.argument("session")
@space_option
@store_option
@json_option
@click.option("--dry-run", is_flag=True, help="Say what would be kept; write nothing.")
def extract(session: str, store: str, as_json: bool, dry_run: bool, **words: Any) -> None:
    """Keep what a session has taught. Called again, it goes on where it was, and keeps nothing twice."""
    from perdure.edge.cli.talk import talk_given

    with opened(store, read_only=False, talk=talk_given(), memory=settings_given()) as db:
        space = space_of(db, words)
        taught = session_of(db, session)
        turns_of(taught.info())  # where nobody has talked, nothing was taught
        done = space.extract(taught, dry=dry_run)
        now = db.now()
    if as_json:
        refused = [{"content": one.content, "reason": one.reason, "version": one.version} for one in done.refused]
        documents.emit(
            {
                "space": space.space,
                "session": done.session,
                "dry_run": done.dry,
                "kept": [document_of(one) for one in done.kept],
                "refused": refused,
                "proposed": [proposal_document(one) for one in done.proposed],
                "by": done.by,
                "cost": done.cost,
            }
        )
        return
    show_memories(list(done.kept), now, nothing="nothing new to keep")
    for one in done.refused:
        click.echo(f"left out ({one_line(one.reason)}): {one_line(one.content, 80)}", err=True)


@click.command()
@click.argument("name", metavar="MEMORY")
@space_option
@store_option
@json_option
@click.option("--to", default="lethe", show_default=True, metavar="SPACE", help="Whom to tell: lethe, or clade/NAME.")
@click.option("--evidence", multiple=True, metavar="TEXT", help="What speaks for it; may be repeated.")
@click.option("--days", type=click.FloatRange(0, min_open=True), help="For how long it is to be believed there.")
def propose(
    name: str, store: str, as_json: bool, to: str, evidence: tuple[str, ...], days: float | None, **words: Any
) -> None:
    """Propose a memory to others. Four gates say whether it is new there, evidenced, general and expiring."""
    with opened(store, read_only=False, memory=settings_given()) as db:
        space = space_of(db, words)
        ttl = None if days is None else days * 86_400
        made = space.propose(memory_of(space, name).id, to=to, evidence=evidence, ttl=ttl)
    said = f"proposed {made.id} to {one_line(to)}"
    if made.accepted:
        said += f": it passed all gates, and was let in as {made.became}"
    _tell(made, as_json, said)


@click.command()
@space_option
@store_option
@json_option
@click.option("--all", "reviewed", is_flag=True, help="Those that were reviewed, too.")
def proposals(store: str, as_json: bool, reviewed: bool, **words: Any) -> None:
    """List what was proposed to a space and waits for a review."""
    with opened(store, read_only=True, memory=WORDS) as db:
        space = space_of(db, words)
        found = space.proposals(reviewed=reviewed)
    if as_json:
        documents.emit({"space": space.space, "proposals": [proposal_document(one) for one in found]})
        return
    from perdure.edge.cli import output

    console = output.screen()
    if not found:
        console.print(f"nothing waits for a review in {one_line(space.space)}; --lethe or --clade names another space")
        return
    rows = [(one.id, _standing(one), one.origin, _doubts(one), one.content) for one in found]
    columns = ["proposal", "standing", "from", "doubts", "content"]
    console.print(output.table(columns, rows, flexible=("doubts", "content")))


@click.command()
@click.argument("proposal")
@space_option
@store_option
@json_option
@click.option("--accept/--reject", default=None, help="Whether it becomes a memory of the space.")
@click.option("--reason", default="", help="Why; the log keeps it.")
def review(proposal: str, store: str, as_json: bool, accept: bool | None, reason: str, **words: Any) -> None:
    """Accept a proposal, which makes a memory of it in the space, or reject it."""
    if accept is None:
        raise click.UsageError("say --accept or --reject")
    with opened(store, read_only=False, memory=settings_given()) as db:
        space = space_of(db, words)
        done = space.review(proposal_of(space, proposal), accept, reason=reason)
    _tell(done, as_json, f"accepted {done.id} as {done.became}" if done.accepted else f"rejected {done.id}")


@click.command("auto-accept")
@click.argument("allow", type=click.Choice(("on", "off")), required=False)
@space_option
@store_option
@json_option
def auto_accept(allow: str | None, store: str, as_json: bool, **words: Any) -> None:
    """Show whether what is proposed to a space and passes all gates needs no review, or say so: on, or off."""
    with opened(store, read_only=allow is None, memory=settings_given()) as db:
        space = space_of(db, words)
        auto = space.auto_accept(None if allow is None else allow == "on")
    if as_json:
        documents.emit({"space": space.space, "auto": auto})
    else:
        click.echo(
            f"what passes all gates {'becomes a memory of' if auto else 'is reviewed for'} {one_line(space.space)}"
        )


def _tell(proposal: "Proposal", as_json: bool, said: str) -> None:
    if as_json:
        documents.emit(proposal_document(proposal))
        return
    click.echo(said)
    if proposal.accepted is None:
        for gate, told in proposal.gates.items():
            click.echo(f"  {gate}: {one_line(told)}")


def _standing(proposal: "Proposal") -> str:
    return "waits" if proposal.accepted is None else "accepted" if proposal.accepted else "rejected"


def _doubts(proposal: "Proposal") -> str:
    return "; ".join(f"{gate}: {told}" for gate, told in proposal.gates.items() if told != "pass")


def proposal_document(item: "Proposal") -> dict[str, Any]:
    """A proposal for programs."""
    times = {"expires": item.expires, "proposed_at": item.proposed_at or None, "reviewed_at": item.reviewed_at or None}
    return {
        "proposal": item.id,
        "origin": item.origin,
        "memory": item.memory,
        "type": item.type,
        "content": item.content,
        "importance": item.importance,
        "metadata": item.metadata,
        "evidence": list(item.evidence),
        "gates": item.gates,
        "by": item.by,
        "accepted": item.accepted,
        "became": item.became or None,
        "reviewed_by": item.reviewed_by or None,
        "reason": item.reason,
        **{name: None if time is None else moment(time) for name, time in times.items()},
    }
