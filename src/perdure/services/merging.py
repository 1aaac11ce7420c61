"""Diffing and merging sessions: vars and scratchpads three-way, from the point where the logs parted."""

from typing import Any, Final, Literal

import msgspec

from perdure.core.errors import Invalid, NotFound
from perdure.core.session import commands as do
from perdure.core.session import diff as diffs
from perdure.core.session import merge as merges
from perdure.core.session import state as states
from perdure.core.session.ids import SessionId
from perdure.core.session.origin import SINGLE_LEVEL, Lineage
from perdure.core.session.shown import shown
from perdure.core.session.state import State
from perdure.core.session.values import Path, check, path_text
from perdure.ports.store import Head
from perdure.services.log import stretches
from perdure.services.sessions import Sessions

Side = Literal["base", "ours", "theirs"]
SIDES: Final[tuple[Side, ...]] = ("base", "ours", "theirs")
POLICIES: Final = ("escalate", "last_writer_wins", "ours", "theirs")


class MergeReport(msgspec.Struct, frozen=True, kw_only=True):
    """What a merge did. With conflicts, everything else is merged and `conflict_id` waits to be resolved."""

    session: SessionId
    source: SessionId
    merged: bool
    version: int
    base_version: int
    conflicts: tuple[dict[str, Any], ...] = ()
    conflict_id: str | None = None


class Merging:
    """Comparing sessions and bringing them together."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions

    async def diff(self, ours: State, theirs: State) -> diffs.Patch:
        """What leads from one state's vars and scratchpads to the other's."""
        return diffs.diff(content_of(ours), content_of(theirs))

    async def merge(
        self, session: SessionId, source: SessionId, policy: str = "escalate", summary: str | None = None
    ) -> MergeReport:
        """Take over another session's vars and scratchpads; its turns stay where they are, linked.

        What was merged from it before counts as common, so merging again takes over only what is new.
        """
        if session == source:
            raise Invalid("a session cannot be merged with itself", session=session)
        mine, other = await self._sessions.log.head(session), await self._sessions.log.head(source)
        ours = (await self._sessions.loader.load(session)).state
        theirs = (await self._sessions.loader.load(source)).state
        base_version, holder = await self._parted(mine, other, ours, theirs)
        before = ours.links.merged.get(source, 0)
        if before == theirs.version and summary is None:
            return _nothing_new(session, source, ours.version, base_version)
        base = await self._base(theirs, holder, base_version, before)
        merged = merges.merge(base, content_of(ours), content_of(theirs), _policy(policy, mine, other))
        conflict_id = self._sessions.fresh_id() if merged.conflicts else ""
        command = _command(merged, theirs, base_version, policy)
        command = msgspec.structs.replace(command, conflict_id=conflict_id, summary=summary)
        outcome = await self._sessions.handle(session, command, expected=ours.version)
        return MergeReport(
            session=session,
            source=source,
            merged=not merged.conflicts,
            version=outcome.version,
            base_version=base_version,
            conflicts=command.conflicts,
            conflict_id=conflict_id or None,
        )

    async def _parted(self, mine: Head, other: Head, ours: State, theirs: State) -> tuple[int, SessionId]:
        """Where the two parted, and who still has the state of that moment; version 0 when nobody has."""
        common = common_version(mine, other)
        if common:
            return common, mine.row.session
        # Pruning takes the log they shared, but a branch remembers where it began.
        for branch, lineage, parent in ((other, theirs.origin.lineage, mine), (mine, ours.origin.lineage, other)):
            if lineage is None or lineage.parent != parent.row.session:
                continue
            if branch.anchor_version <= lineage.version:
                return lineage.version, branch.row.session
            if await self._holds(parent, lineage):
                return lineage.version, parent.row.session
        return 0, mine.row.session

    async def _holds(self, parent: Head, lineage: Lineage) -> bool:
        """Whether the parent's log still has the version a branch began at, and is the log it began in."""
        if not parent.anchor_version < lineage.version <= parent.row.version:
            return parent.anchor_version == lineage.version and parent.anchor_digest == lineage.digest
        return (await self._sessions.log.place(parent, lineage.version))[0] == lineage.digest

    async def _base(self, theirs: State, holder: SessionId, version: int, before: int) -> dict[str, Any]:
        """The content both have in common: the source's when it was last merged, else the common ancestor's; a branch
        that left `vars` behind has none of them in common.
        """
        if before:
            return content_of(await self._sessions.loader.state_at(SessionId(theirs.session), before))
        if version == 0:
            return content_of(states.BLANK)
        base = content_of(await self._sessions.loader.state_at(holder, version))
        lineage = theirs.origin.lineage
        if lineage is not None and lineage.kind in SINGLE_LEVEL and lineage.version == version:
            base["vars"] = {}
        return base

    async def resolve(
        self, session: SessionId, conflict: str, choices: dict[str, Any], summary: str | None = None
    ) -> MergeReport:
        """Settle a pending conflict: for each path `ours` (what is there now), `theirs`, `base`, or a value of one's
        own as `{"value": …}`; one that is neither a text nor such a dict may be given as it is.
        """
        if type(choices) is not dict:
            raise Invalid(f"choices are a dict of paths and sides, not {shown(choices)}")
        state = (await self._sessions.loader.load(session)).state
        pending = state.links.conflicts.get(conflict)
        if pending is None:
            raise NotFound(f"no conflict {conflict} is pending in session {session}", conflict=conflict)
        content = merges.resolve(
            _waiting(content_of(state), pending.conflicts), _choices(pending.conflicts, choices)
        ).value
        command = do.MergeIn(
            source=pending.source,
            source_version=pending.source_version,
            base_version=pending.base_version,
            policy="resolved",
            document=content["vars"],
            pads=content["scratchpads"],
            settles=conflict,
            summary=summary,
        )
        outcome = await self._sessions.handle(session, command, expected=state.version)
        return MergeReport(
            session=session,
            source=SessionId(pending.source),
            merged=True,
            version=outcome.version,
            base_version=pending.base_version,
        )


def _nothing_new(session: SessionId, source: SessionId, version: int, base: int) -> MergeReport:
    return MergeReport(session=session, source=source, merged=True, version=version, base_version=base)


def content_of(state: State) -> dict[str, Any]:
    """What merges: the application's document and the scratchpads."""
    pads = {name: pad.content for name, pad in state.scratchpads.pads.items()}
    return {"vars": state.vars.document, "scratchpads": pads}


def common_version(ours: Head, theirs: Head) -> int:
    """The last version both logs have in common; 0 when they share nothing."""
    common = 0
    for mine, other in zip(stretches(ours), stretches(theirs), strict=False):
        if mine.origin != other.origin or mine.after != other.after:
            break
        common = min(mine.upto, other.upto)
        if mine.upto != other.upto:
            break
    return common


def _policy(name: str, ours: Head, theirs: Head) -> Any:
    match name:
        case "escalate":
            return merges.Escalate()
        case "last_writer_wins":
            return merges.LastWriterWins(ours_at=ours.row.active_at, theirs_at=theirs.row.active_at)
        case "ours" | "theirs":
            return merges.Priority(winner=name)
        case _:
            raise Invalid(f"{shown(name)} is not a merge policy; use one of {', '.join(POLICIES)}")


def _command(merged: merges.Merged, theirs: State, base_version: int, policy: str) -> do.MergeIn:
    """What the target shall take over. Until a conflict is resolved, the target keeps its own side."""
    content: Any = merges.resolve(merged, {item.path: "ours" for item in merged.conflicts}).value
    conflicts = tuple(
        {"path": list(item.path), **{side: _side(getattr(item, side)) for side in SIDES}} for item in merged.conflicts
    )
    return do.MergeIn(
        source=theirs.session,
        source_version=theirs.version,
        base_version=base_version,
        policy=policy,
        document=content["vars"],
        pads=content["scratchpads"],
        conflicts=conflicts,
    )


def _side(value: Any) -> dict[str, Any]:
    """One side of a conflict as it is stored; absent is not the same as null."""
    return {} if value is merges.ABSENT else {"value": value}


def _waiting(content: dict[str, Any], conflicts: tuple[dict[str, Any], ...]) -> merges.Merged:
    """The stored conflicts as the core knows them, over the present content."""
    found = [
        merges.Conflict(path=tuple(item["path"]), **{side: item[side].get("value", merges.ABSENT) for side in SIDES})
        for item in conflicts
    ]
    return merges.Merged(content, tuple(found))


def _choices(conflicts: tuple[dict[str, Any], ...], chosen: dict[str, Any]) -> dict[Path, merges.Choice]:
    """A decision for every conflicting path, by its spelling. What is ours stays as it is by now."""
    found: dict[Path, merges.Choice] = {}
    names = {path_text(tuple(item["path"])): tuple(item["path"]) for item in conflicts}
    for name in chosen:
        if name not in names:
            spelled = name[:200] if type(name) is str else shown(name)
            raise Invalid(f"{spelled} is not in conflict; choose for {', '.join(names)}", path=spelled)
    for name, path in names.items():
        if name not in chosen:
            raise Invalid(f"no choice for {name}; choose for each of {', '.join(names)}", path=name)
        choice = _choice(name, chosen[name])
        if choice != "ours":
            found[path] = choice
    return found


def _choice(name: str, given: Any) -> merges.Choice:
    """A side by its name, or a value of one's own; a text that names no side is a slip, not a value."""
    if type(given) is dict and given.keys() == {"value"}:
        check(given["value"])
        return merges.Use(given["value"])
    if not isinstance(given, str):
        check(given)
        return merges.Use(given)
    for side in SIDES:
        if given == side:
            return side
    raise Invalid(
        f"{shown(given)} is no side of {name}; choose ours, theirs or base, or give a text as {{'value': …}}", path=name
    )
