"""Memory beyond one's own words: learnt from sessions, and promoted to others."""

from http import HTTPStatus
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from perdure.core import errors
from perdure.core.access.roles import Action, Thing, Verb
from perdure.core.errors import Denied, Invalid
from perdure.core.memory.parts import LETHE, MemoryType, Space
from perdure.core.memory.shelf import Proposal
from perdure.edge.http.api.memory import or_missing
from perdure.edge.http.asgi import Answer
from perdure.edge.http.asking import Ask
from perdure.edge.http.reaching import READ_TURNS, other
from perdure.edge.http.remembered import MemoryView, Text, view_of
from perdure.edge.http.routes import Table
from perdure.edge.http.spaces import NOBODY, Entered, Name, Place, entered, may_enter

table = Table()
CREATE: Final = Action(Verb.CREATE, Thing.MEMORY)
WRITE: Final = Action(Verb.WRITE, Thing.MEMORY)
CENTURY: Final = 3_155_760_000.0
"""Seconds that anything is believed at most."""
Reason = Annotated[str, Meta(max_length=1000)]


class ExtractBody(Place, kw_only=True, forbid_unknown_fields=True):
    """The session that is learnt from, and where it is kept; with `dry` nothing is written."""

    session_id: Text
    dry: bool = False


class RefusedLesson(msgspec.Struct, kw_only=True):
    """Something that was said and is not kept, and why."""

    content: str
    reason: str
    log_version: int


class ExtractedView(msgspec.Struct, kw_only=True):
    """What came of it. `by` is the rules, or the model that was asked; `cost` is in micro-dollars. All up to version
    `upto` of the session has been looked at.
    """

    session_id: str
    space: str
    kept: tuple[MemoryView, ...]
    refused: tuple[RefusedLesson, ...]
    proposed: tuple[str, ...]
    upto: int
    dry: bool
    by: str
    cost: int


class PromoteBody(Place, kw_only=True, forbid_unknown_fields=True):
    """A memory of a space that others should know: everybody (`lethe`), or a clade (`clade/NAME`), for `ttl` seconds.
    `evidence` says what speaks for it.
    """

    memory_id: Text
    to: Text = "lethe"
    evidence: Annotated[tuple[Text, ...], Meta(max_length=100)] = ()
    ttl: Annotated[float, Meta(gt=0, le=CENTURY)] | None = None


class ProposalView(msgspec.Struct, kw_only=True):
    """What is proposed, how each gate judged it, and what came of it."""

    id: str
    to: str
    memory_type: str
    content: str
    importance: float
    metadata: Any
    evidence: tuple[str, ...]
    gates: dict[str, str]
    expires: int | None
    by: str
    proposed_at: int
    accepted: bool | None
    became: str
    reviewed_by: str
    reason: str
    reviewed_at: int


class ProposalList(msgspec.Struct, kw_only=True):
    """Proposals, oldest first."""

    items: tuple[ProposalView, ...]


class ProposalQuery(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """To whom: everybody, unless a clade is named; with `reviewed` also those that do not wait any more."""

    clade: Name | None = None
    reviewed: bool = False


class ReviewBody(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Whether a proposal is accepted, and why; to a clade, if one is named."""

    accept: bool
    reason: Reason = ""
    clade: Name | None = None


class AcceptQuery(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Of everybody's space, unless a clade is named."""

    clade: Name | None = None


class AcceptBody(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Whether what passes all gates needs no review: in everybody's space, unless a clade is named."""

    auto: bool
    clade: Name | None = None


class Accepting(msgspec.Struct, kw_only=True):
    """Whether what is proposed to a space and passes all gates becomes a memory there without a review."""

    space: str
    auto: bool


# ── learning ──


@table.add(
    "POST",
    "/v1/memory/extract",
    (Verb.CREATE, Thing.MEMORY),
    body=ExtractBody,
    answer=ExtractedView,
    errors=(errors.QuotaReached, errors.NotFound, errors.VersionConflict, errors.ColdUnreachable),
    example={"session_id": "0192f0c4-7d1e-7abc-8def-0123456789ab", "dry": True},
)
async def extract_memories(ask: Ask) -> Answer:
    """Keep what a session teaches; again, nothing is kept twice."""
    body: ExtractBody = await ask.body()
    place = await entered(ask, body)
    session = (await other(ask, body.session_id, READ_TURNS)).id
    done = await ask.services.extracting.extract(
        session, place.space, dry=body.dry, agent=place.agent, owner=place.owner
    )
    view = ExtractedView(
        session_id=session,
        space=place.told,
        kept=tuple(view_of(memory, place, ask) for memory in done.kept),
        refused=tuple(
            RefusedLesson(content=one.content, reason=one.reason, log_version=one.version) for one in done.refused
        ),
        proposed=tuple(proposal.id for proposal in done.proposed),
        upto=done.upto,
        dry=done.dry,
        by=done.by,
        cost=done.cost,
    )
    return ask.answer(view)


# ── promoting ──


@table.add(
    "POST",
    "/v1/memory/promote",
    (Verb.SHARE, Thing.MEMORY),
    body=PromoteBody,
    answer=ProposalView,
    status=HTTPStatus.CREATED,
    errors=(errors.QuotaReached, errors.NotFound, errors.VersionConflict, errors.MemoryRefused),
    example={"memory_id": "0192f0c4-7d1e-7abc-8def-0123456789ab", "to": "lethe", "ttl": 2592000},
)
async def promote_memory(ask: Ask) -> Answer:
    """Propose a memory to others: four gates judge whether it is new, evidenced, general and expiring."""
    body: PromoteBody = await ask.body()
    place, target = await entered(ask, body), await _target(ask, body.to)
    if target.space == LETHE:  # whoever proposes first does not own it
        await ask.services.memories.shelves.begin(LETHE, owner=NOBODY)
    proposing = ask.services.promoting.propose(
        place.space, body.memory_id, to=target.space, evidence=body.evidence, ttl=body.ttl
    )
    return ask.answer(_view(await or_missing(proposing), target, ask))


async def _target(ask: Ask, told: str) -> Entered:
    """Where something is proposed to: everybody may propose to all, and those who keep things in a clade to that."""
    namespace, _, name = told.partition("/")
    if told == "lethe":
        return await entered(ask, Place(namespace="lethe"), Action(Verb.LIST, Thing.MEMORY))
    if namespace == "clade" and name:
        return await entered(ask, Place(clade=Space("clade", name).name), CREATE)
    raise Invalid("propose it to lethe, or to clade/NAME")


@table.add(
    "GET",
    "/v1/memory/proposals",
    (Verb.READ, Thing.MEMORY),
    query=ProposalQuery,
    answer=ProposalList,
    errors=(errors.NotFound,),
)
async def list_proposals(ask: Ask) -> Answer:
    """What was proposed and waits for a review: all of it for those who review, for others what is theirs."""
    query: ProposalQuery = ask.query()
    place = _place(query.clade)
    target = await entered(ask, place)
    found = await ask.services.promoting.queue(target.space, reviewed=query.reviewed)
    if not await may_enter(ask, place, WRITE):
        found = tuple(one for one in found if one.by == ask.actor.name)
    return ask.answer(ProposalList(items=tuple(_view(one, target, ask) for one in found)))


@table.add(
    "POST",
    "/v1/memory/proposals/{proposal_id}/review",
    (Verb.WRITE, Thing.MEMORY),
    body=ReviewBody,
    answer=ProposalView,
    sensitive=True,
    errors=(errors.QuotaReached, errors.VersionConflict, errors.MemoryRefused),
    example={"accept": True, "reason": "checked it"},
)
async def review_proposal(ask: Ask) -> Answer:
    """Accept a proposal, which makes a memory of it there, or reject it; a person does."""
    body: ReviewBody = await ask.body()
    target = await entered(ask, _place(body.clade))
    if ask.actor.kind == "agent":
        raise Denied("a person must review what others are to know, not an agent; sign in as one", reason="approval")
    reviewing = ask.services.promoting.review(target.space, ask.params["proposal_id"], body.accept, body.reason)
    return ask.answer(_view(await or_missing(reviewing, "proposal"), target, ask))


@table.add(
    "GET",
    "/v1/memory/auto-accept",
    (Verb.READ, Thing.MEMORY),
    query=AcceptQuery,
    answer=Accepting,
    errors=(errors.NotFound,),
)
async def accepting(ask: Ask) -> Answer:
    """Whether what passes all gates needs no review."""
    query: AcceptQuery = ask.query()
    return await _accepting(ask, await entered(ask, _place(query.clade)))


@table.add(
    "PUT",
    "/v1/memory/auto-accept",
    (Verb.SHARE, Thing.MEMORY),
    body=AcceptBody,
    answer=Accepting,
    sensitive=True,
    errors=(errors.NotFound, errors.VersionConflict),
    example={"auto": True, "clade": "desk"},
)
async def set_accepting(ask: Ask) -> Answer:
    """Say for a space whether what passes all gates needs no review; its owner does, of everybody's an admin."""
    body: AcceptBody = await ask.body()
    target = await entered(ask, _place(body.clade))
    if ask.actor.kind == "agent":
        raise Denied("a person must say what needs no review, not an agent; sign in as one", reason="approval")
    await or_missing(ask.services.promoting.allow(target.space, body.auto), "space")
    return await _accepting(ask, target)


async def _accepting(ask: Ask, target: Entered) -> Answer:
    return ask.answer(Accepting(space=target.told, auto=await ask.services.promoting.allows(target.space)))


def _place(clade: str | None) -> Place:
    return Place(namespace="lethe") if clade is None else Place(clade=clade)


def _view(proposal: Proposal, target: Entered, ask: Ask) -> ProposalView:
    same = {name: getattr(proposal, name) for name in _SAME}
    return ProposalView(
        to=target.told,
        memory_type=proposal.type or MemoryType.FACT.value,
        metadata=ask.voice.content(proposal.metadata),
        **same,
    )


_SAME: Final = tuple(
    name for name in ProposalView.__struct_fields__ if name in Proposal.__struct_fields__ and name != "metadata"
)
