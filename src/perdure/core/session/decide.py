"""Deciding: a state, a command and the facts become drafts of events, or a typed refusal. Nothing else is written.

One function per command; `decide` only picks it. A `Wish` among the drafts asks for a checkpoint at that point;
whoever writes the record fulfils it, since that takes an id and the base of a delta.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

from perdure.core.errors import GuardFailed, Invalid
from perdure.core.session import (
    budget,
    caps,
    cleanup,
    codec,
    lifecycle,
    recording,
    scratchpad,
    timeouts,
    tools,
    turns,
)
from perdure.core.session import commands as do
from perdure.core.session import vars as variables
from perdure.core.session.admission import admit, admit_turn
from perdure.core.session.advancing import advanced, approved, given_up, interruption
from perdure.core.session.checkpoints import CheckpointExpired, CheckpointPinned, Trigger
from perdure.core.session.event import Draft, Payload, draft
from perdure.core.session.lifecycle import Effect, Life, MoveFacts, Phase
from perdure.core.session.links import ConflictFound, Merged
from perdure.core.session.naming import metadata_of
from perdure.core.session.origin import Configured, Created, Renewed, override
from perdure.core.session.redaction import Redacted
from perdure.core.session.spawning import child_finished, spawned
from perdure.core.session.state import State
from perdure.core.session.turns import Message, Retracted, TurnRolledBack
from perdure.core.session.wishes import Decided, Wish


class Facts(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What deciding needs to know of the world."""

    at: int
    vars_valid: bool = True
    consistent: bool = True


def decide(state: State, command: do.Command, facts: Facts) -> Decided:
    """What the command does to the session; typed errors say why it does nothing."""
    if (state.version == 0 or not state.session) and not isinstance(command, do.Create):
        raise Invalid("a session begins with create")
    rule = _RULES.get(type(command))
    if rule is None:
        raise Invalid(f"{type(command).__name__} is not a command of a session")
    decided: Decided = rule(state, command, facts)
    return decided


def _create(state: State, command: do.Create, facts: Facts) -> Decided:
    timeouts.admit(command.config)
    caps.admit(command.config)
    decided: list[Draft | Wish] = [
        draft(
            Created(
                owner=command.owner,
                title=command.title,
                tags=command.tags,
                metadata=command.metadata,
                config=command.config,
                overrides=command.overrides,
                isolation=command.isolation,
                account=command.account,
                lineage=command.lineage,
                exit_criteria=command.exit_criteria,
                agent_id=command.agent_id,
                expires_at=command.expires_at,
                spawner=command.spawner,
            )
        )
    ]
    if command.vars is not None:
        change = variables.change(variables.Vars(), command.vars, command.schema, command.schema_version)
        decided += [draft(change)] if change is not None else []
    if command.activate:
        facts_now = MoveFacts(vars_valid=facts.vars_valid)
        decided.append(draft(lifecycle.decide_move(Life(), "activate", facts_now)))
    return tuple(decided)


def _append(state: State, command: do.Append, facts: Facts) -> Decided:
    admit(state, command.drafts)
    return _placed(state, command.drafts, facts)


def _record(state: State, command: do.Record, facts: Facts) -> Decided:
    admit(state, command.drafts)
    open, retracted = state.turns.open, command.retracted
    if command.replacing is not None:
        retracted += (do.Retract(first=command.replacing, upto=state.version, calls=command.calls),)
    taken = tuple(_taken(state, item) for item in retracted)
    for item in taken:
        open = turns.flight(open, 0, item.payload, None, facts.at, 0)
    recorded = _placed(state, (*taken, *recording.arranged(open, command.drafts, more=command.more)), facts)
    recorded += _set_vars(state, do.SetVars(document=state.vars.document | command.vars), facts) if command.vars else ()
    if command.title is None and command.metadata is None:
        return recorded
    return (*recorded, *_configure(state, do.Configure(title=command.title, metadata=command.metadata), facts))


def _retract(state: State, command: do.Retract, facts: Facts) -> Decided:
    lifecycle.must_be_awake(state.life, state.session)
    return _placed(state, (_taken(state, command),), facts)


def _taken(state: State, command: do.Retract) -> Draft:
    """What takes versions out of the conversation."""
    if not 1 <= command.first <= command.upto <= state.version:
        raise Invalid(f"retract versions from 1 to {state.version}, the first before the last", version=state.version)
    return draft(Retracted(first=command.first, upto=command.upto, calls=command.calls, reason=command.reason))


def _placed(state: State, drafts: tuple[Draft, ...], facts: Facts) -> Decided:
    """The drafts, each in its turn."""
    open, number, version = state.turns.open, state.turns.count, state.version
    decided: list[Draft | Wish] = []
    for item in drafts:
        version += 1
        payload = item.payload
        admit_turn(open, payload)
        aim = payload.aim()
        target = item.target if aim is None else aim  # a tool's result belongs to its call, whatever a draft says
        before, open = open, turns.flight(open, number + 1, payload, target, facts.at, version)
        current = open or before
        if current is not None:
            number = max(number, current.number)
        turn = None if current is None else current.number
        decided.append(Draft(payload, item.agent, item.child_agent, target, turn))
    return tuple(decided)


def _configure(state: State, command: do.Configure, facts: Facts) -> Decided:
    _not_ended(state)
    timeouts.admit(config := command.config)
    if config is not None and command.fields is not None:
        config = override(state.origin.config, config, command.fields)
    capped = caps.admit(config)
    changes: dict[str, Any] = {}
    replaced = {"config": config, "metadata": metadata_of(state, command.title, command.metadata)}
    for name in ("title", "tags", "metadata", "config", "isolation"):
        value = replaced[name] if name in replaced else getattr(command, name)
        if value is not None and _written(name, value) != _written(name, getattr(state.origin, name)):
            changes[name] = value
    if capped and "config" in changes and state.origin.account is None:
        changes["account"] = state.session  # branches made from now on share the cap
    return (draft(Configured(**changes)),) if changes else ()


def _written(name: str, value: Any) -> bytes:
    """A field as it is stored: 1, 1.0 and True are equal to Python only."""
    return codec.encode_struct(Configured(**{name: value}))


def _move(state: State, command: do.MoveTo, facts: Facts) -> Decided:
    moved = lifecycle.decide_move(
        state.life,
        command.event,
        MoveFacts(
            turn_open=state.turns.open is not None,
            vars_valid=facts.vars_valid,
            unbound_tools=tools.unbound(state.tools),
            open_children=tuple(state.children.open),
            unmet_criteria=tuple(name for name, met in state.life.criteria.items() if not met),
            consistent=facts.consistent,
        ),
        command.reason,
    )
    effects = lifecycle.find_move(state.phase, command.event).effects
    decided: list[Draft | Wish] = []
    if Effect.INTERRUPT_TURN in effects:
        decided += interruption(state, command.event)
    if Effect.CHECKPOINT in effects:
        decided.append(Wish(trigger=Trigger.LIFECYCLE, label=command.event))
    return (*decided, draft(moved))


def _wake(state: State, command: do.Wake, facts: Facts) -> Decided:
    """A turn that a crash left open is closed first. A session found RESUMED, by a crash in waking, moves no more."""
    decided: list[Draft | Wish] = [*interruption(state, "crash")]
    if state.phase is not Phase.RESUMED:
        moved = lifecycle.decide_move(state.life, command.event, MoveFacts(consistent=facts.consistent))
        decided.append(draft(moved))
    return (*decided, *[draft(item) for item in (*command.tools, *command.retrievals)])


def _set_vars(state: State, command: do.SetVars, facts: Facts) -> Decided:
    _not_ended(state)
    change = variables.change(state.vars, command.document, command.schema, command.schema_version)
    return (draft(change),) if change is not None else ()


def _scratchpad(state: State, command: do.WriteScratchpad, facts: Facts) -> Decided:
    _not_ended(state)
    return (Draft(scratchpad.write(command.content), agent=command.agent),)


def _reserve(state: State, command: do.Reserve, facts: Facts) -> Decided:
    lifecycle.must_be_awake(state.life, state.session)
    reserved = budget.reserve(
        state.budget,
        command.reservation,
        command.amount,
        command.purpose,
        tokens=command.tokens,
        rounds=command.rounds,
    )
    budget.must_fit(state.budget, reserved, caps.caps_of(state.config))
    return (draft(reserved),)


def _settle(state: State, command: do.Settle, facts: Facts) -> Decided:
    settled = budget.settle(
        state.budget,
        command.reservation,
        command.cost,
        estimated=command.estimated,
        tokens=command.tokens,
        rounds=command.rounds,
    )
    return tuple(draft(item) for item in settled)


def _checkpoint(state: State, command: do.TakeCheckpoint, facts: Facts) -> Decided:
    _not_ended(state)
    return (Wish(trigger=command.trigger, label=command.label, metadata=command.metadata),)


def _pin(state: State, command: do.PinCheckpoint, facts: Facts) -> Decided:
    return (draft(CheckpointPinned(id=command.id, pinned=command.pinned)),)


def _expire(state: State, command: do.ExpireCheckpoints, facts: Facts) -> Decided:
    return (draft(CheckpointExpired(ids=command.ids)),) if command.ids else ()


def _recover(state: State, command: do.Recover, facts: Facts) -> Decided:
    return tuple(interruption(state, command.reason, command.text))


def _roll_back(state: State, command: do.RollBack, facts: Facts) -> Decided:
    admit_turn(state.turns.open, TurnRolledBack())
    number = state.turns.open.number if state.turns.open else None
    closed = given_up(state, "rolled back", number)  # money stays spent
    return (*closed, draft(TurnRolledBack(reason=command.reason), turn=number))


def _advance(state: State, command: do.Advance, facts: Facts) -> Decided:
    paid, said, aside = advanced(state, command)
    return (*paid, *_placed(state, said, facts), *aside)


def _give_up(state: State, command: do.GiveUp, facts: Facts) -> Decided:
    return tuple(given_up(state, command.reason, None, command.asks))


def _approve(state: State, command: do.Approve, facts: Facts) -> Decided:
    return _placed(state, approved(state, command), facts)


def _correct(state: State, command: do.Correct, facts: Facts) -> Decided:
    return (draft(budget.correct(state.budget, command.reservation, command.cost)),)


def _merge(state: State, command: do.MergeIn, facts: Facts) -> Decided:
    lifecycle.must_be_awake(state.life, state.session)
    decided: list[Draft | Wish] = []
    change = variables.change(state.vars, command.document)
    if change is not None:
        decided.append(draft(change))
    for agent, content in command.pads.items():
        if state.scratchpads.pads.get(agent, scratchpad.Pad()).content != content:
            decided.append(Draft(scratchpad.write(content), agent=agent or None))
    if command.summary:
        decided.append(draft(Message(role="system", content=command.summary)))
    place: dict[str, Any] = {
        "source": command.source,
        "source_version": command.source_version,
        "base_version": command.base_version,
    }
    if command.conflicts:
        decided.append(draft(ConflictFound(id=command.conflict_id, conflicts=command.conflicts, **place)))
    else:
        decided.append(draft(Merged(policy=command.policy, settles=command.settles, **place)))
    return tuple(decided)


def _redact(state: State, command: do.Redact, facts: Facts) -> Decided:
    if not command.versions and command.mask is None:
        raise Invalid("name the versions to redact")
    redacted = draft(Redacted(versions=command.versions, reason=command.reason))
    return (redacted, *_masked(state, command.mask)) if command.mask is not None else (redacted,)


def _masked(state: State, mask: do.Mask) -> Iterator[Draft]:
    if state.version != mask.version:
        raise GuardFailed(
            f"session {state.session} changed since it was looked through; look again",
            session=state.session,
            reason="changed",
        )
    bare = variables.Vars(document=mask.bare, schema=state.vars.schema, schema_version=state.vars.schema_version)
    change = variables.change(bare, mask.document)
    if change is not None:
        yield draft(change)
    for agent, content in mask.pads.items():
        yield Draft(scratchpad.write(content), agent=agent or None)


def _renew(state: State, command: do.Renew, facts: Facts) -> Decided:
    _not_ended(state)
    if command.expires_at <= facts.at:
        raise Invalid("the new expiry lies in the past; choose a later one", expires_at=command.expires_at)
    return (draft(Renewed(expires_at=command.expires_at)),)


def _note_compensation(state: State, command: do.NoteCompensation, facts: Facts) -> Decided:
    return (draft(lifecycle.Compensated(name=command.name, index=command.index, error=command.error)),)


def _clean_up(state: State, command: do.CleanUp, facts: Facts) -> Decided:
    cleanup.admit(state.life, state.session, command.since, state.version)
    if cleanup.done(state.life, command.step, command.hook):
        return ()
    error = command.error
    if command.failed:
        known = cleanup.named(command.step, command.hook) in state.life.cleanup
        failure = cleanup.CleanupFailed(step=command.step, hook=command.hook, error=error)
        return () if known else (draft(failure),)
    noted = draft(cleanup.Cleaned(step=command.step, hook=command.hook, error=error, counts=command.counts))
    if not command.hook and command.step == cleanup.Step.FLUSH.value:
        return (Wish(trigger=Trigger.LIFECYCLE, label="cleanup"), noted)
    if not command.hook and command.step == cleanup.Step.RELEASE.value:
        return (*[draft(item) for item in cleanup.released(state.tools)], noted)
    return (noted,)


def _note_ended(state: State, command: do.NoteEnded, facts: Facts) -> Decided:
    return (draft(cleanup.told(state.children.open, command.other, command.reason, command.spent)),)


def _not_ended(state: State) -> None:
    if state.phase in lifecycle.TERMINAL:
        lifecycle.must_be_awake(state.life, state.session)


def drafts_of(items: Iterable[Payload | Draft]) -> tuple[Draft, ...]:
    """Callers hand in payloads or drafts; from here on they are drafts."""
    if type(items) is not list and not isinstance(items, Iterable):
        raise Invalid(f"{type(items).__name__} is not an event; use the classes in perdure.events")
    found = []
    for item in items:
        made = item if isinstance(item, Draft) else Draft(item)
        if not isinstance(made.payload, Payload):
            raise Invalid(f"{type(made.payload).__name__} is not an event; use the classes in perdure.events")
        found.append(made)
    return tuple(found)


_RULES: Final[dict[type[do.Command], Any]] = {
    do.Create: _create,
    do.Append: _append,
    do.Record: _record,
    do.Remember: lambda _, command, __: command.drafts,
    do.Retract: _retract,
    do.Configure: _configure,
    do.MoveTo: _move,
    do.Wake: _wake,
    do.SetVars: _set_vars,
    do.WriteScratchpad: _scratchpad,
    do.Reserve: _reserve,
    do.Settle: _settle,
    do.Correct: _correct,
    do.Advance: _advance,
    do.GiveUp: _give_up,
    do.Approve: _approve,
    do.TakeCheckpoint: _checkpoint,
    do.PinCheckpoint: _pin,
    do.ExpireCheckpoints: _expire,
    do.Recover: _recover,
    do.RollBack: _roll_back,
    do.MergeIn: _merge,
    do.Redact: _redact,
    do.Renew: _renew,
    do.NoteCompensation: _note_compensation,
    do.CleanUp: _clean_up,
    do.NoteEnded: _note_ended,
    do.Spawn: lambda state, command, _: spawned(state, command),
    do.FinishChild: lambda state, command, _: child_finished(state, command),
}
