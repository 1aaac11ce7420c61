"""Cleaning up before time ends a session: flush, release, notify, analytics, promote, scrub, each noted in the log.

A step that the core or this module knows comes first, then the hooks registered under it, in order. Whoever dies
between doing a step and noting it leaves it to be done again, under the same key; after its note it is done for good.
"""

from collections.abc import Awaitable, Callable, Iterator
from typing import Any, Final

import msgspec

from perdure.core import scrub
from perdure.core.errors import Invalid, NotFound, VersionConflict
from perdure.core.session import cleanup
from perdure.core.session import commands as do
from perdure.core.session.cleanup import MAX_ERROR, ORDER, Step
from perdure.core.session.ids import SessionId
from perdure.core.session.lifecycle import TERMINAL, Phase
from perdure.core.session.shown import told
from perdure.core.session.state import State
from perdure.core.session.timeouts import SCRUBS, SECOND
from perdure.ports.store import Commit
from perdure.services.erasure import Erasure
from perdure.services.foreign import Attempts, Late, called
from perdure.services.loading import Loaded
from perdure.services.scrubbing import Scrubbing
from perdure.services.sessions import Extra, Sessions
from perdure.services.webhooks import Webhook, Webhooks

ROUNDS: Final = 50
"""How often the others are told again when one of them went on meanwhile."""
MAX_NAME: Final = 100
GIVE_UP: Final = 86_400.0
"""Seconds after its first failure from which on a hook is given up."""
TIMEOUT: Final = 120.0
"""Seconds a hook may take: less than is left of the usual lease when it is called."""


class CleanupCall(msgspec.Struct, frozen=True, kw_only=True):
    """What a hook is told. `key` is the same for every attempt at this step: do nothing for one you have seen."""

    session: SessionId
    step: str
    hook: str
    key: str
    reason: str
    phase: str
    owner: str
    version: int


class Stuck(msgspec.Struct, frozen=True, kw_only=True):
    """A hook failed and is to be tried again; `since` is when it failed for the first time."""

    step: str
    error: str
    since: int


Run = Callable[[CleanupCall], Any]
Alive = Callable[[], Awaitable[None]]


class Hook(msgspec.Struct, frozen=True):
    """Something to call in a step, plain or async, and how many seconds it has; None waits."""

    run: Run
    timeout: float | None


async def _nothing() -> None:
    """Nobody waits for a sign of life."""


class Cleanup:
    """The hooks, and running what is registered."""

    def __init__(self, sessions: Sessions, erasure: Erasure) -> None:
        self._sessions = sessions
        self._scrubbing = Scrubbing(sessions, erasure)
        self._webhooks = Webhooks(sessions.ambient)
        self._attempts = Attempts()
        self._hooks: dict[Step, dict[str, Hook]] = {}

    def hook(self, step: str, name: str, run: Run, timeout: float | None = TIMEOUT) -> None:
        """Have `run` called in a step. The log knows it by its name, which must stay the same over restarts.

        With a time-out, a plain function runs on a thread of its own, and on the one that sweeps without.
        """
        if type(name) is not str or not 0 < len(name) <= MAX_NAME:
            raise Invalid(f"a hook's name is a text of 1 to {MAX_NAME} characters; pass name=")
        named = self._hooks.setdefault(step_of(step), {})
        if name in named:
            raise Invalid(f"a hook {name!r} of {step} is there already; pass another name=", name=name)
        named[name] = Hook(run, timeout)

    def webhook(self, step: str, name: str, to: Webhook, timeout: float | None = TIMEOUT) -> None:
        """Have a webhook delivered in a step."""

        async def run(call: CleanupCall) -> None:
            body = {"type": f"session.cleanup.{call.step}", **msgspec.to_builtins(call)}
            await self._webhooks.deliver(to, call.key, msgspec.json.encode(body, order="sorted"), timeout)

        self.hook(step, name, run, timeout)

    async def run(
        self, session: SessionId, reason: str, *, alive: Alive = _nothing, give_up: float = GIVE_UP
    ) -> Stuck | None:
        """Do the steps that are not noted yet, in order, up to one that fails; None when all are done.

        `VersionConflict` when the session goes on meanwhile. A hook that has failed for `give_up` seconds is noted
        with its error and left behind.
        """
        since = (await self._state(session)).life.since
        for step in ORDER:
            for hook in ("", *self._hooks.get(step, ())):
                state = await self._state(session)
                cleanup.admit(state.life, session, since, state.version)
                if cleanup.done(state.life, step.value, hook) or (not hook and not _applies(state, step)):
                    continue
                await alive()
                if not hook:
                    await self._built_in(state, step, reason)
                elif (stuck := await self._call(state, step, hook, reason, give_up)) is not None:
                    return stuck
        return None

    async def _state(self, session: SessionId) -> State:
        return (await self._sessions.loader.load(session)).state

    async def _built_in(self, state: State, step: Step, reason: str) -> None:
        note = do.CleanUp(step=step.value, since=state.life.since)
        session = SessionId(state.session)
        if step is Step.NOTIFY:
            await self._notify(state, note, reason)
            return
        if step is Step.SCRUB:
            scrubbed = await self._scrubbing.scrub(session, _scrub(state) or scrub.ALL)
            counts = {name: count for name, count in msgspec.structs.asdict(scrubbed).items() if count}
            note = msgspec.structs.replace(note, counts=counts)
        await self._sessions.handle(session, note)

    async def _notify(self, state: State, note: do.CleanUp, reason: str) -> None:
        """Tell the others and note it, in one append over all of them."""
        session = SessionId(state.session)
        word = do.NoteEnded(other=session, reason=reason, spent=state.budget.spent)

        async def carry(_: Loaded) -> Extra:
            told = [await self._word(other, word) for other in _others(state)]
            return Extra(others=tuple(commit for commit in told if commit is not None))

        for _ in range(ROUNDS):
            try:
                await self._sessions.handle(session, note, extra=carry)
            except VersionConflict:  # one of them went on meanwhile, or this one did
                now = await self._state(session)
                cleanup.admit(now.life, session, note.since, now.version)
            else:
                return
        raise VersionConflict(f"the sessions around {session} keep changing; try again", session=session)

    async def _word(self, other: SessionId, word: do.NoteEnded) -> Commit | None:
        """What another session notes; nothing if it is gone or put away."""
        try:
            row = (await self._sessions.log.head(other)).row
            if row.phase == Phase.ARCHIVED.value or row.cold is not None:
                return None
            return await self._sessions.prepared(other, word)
        except (Invalid, NotFound):  # a link may name what was never here
            return None

    async def _call(self, state: State, step: Step, hook: str, reason: str, give_up: float) -> Stuck | None:
        session = SessionId(state.session)
        call = CleanupCall(
            session=session,
            step=step.value,
            hook=hook,
            key=cleanup.key_of(session, state.life, step.value, hook),
            reason=reason,
            phase=state.phase.value,
            owner=state.origin.owner,
            version=state.version,
        )
        error = await self._attempt(self._hooks[step][hook], call)
        note = do.CleanUp(step=step.value, hook=hook, since=state.life.since, error=error)
        now = self._sessions.ambient.now()
        before = state.life.cleanup.get(cleanup.named(step.value, hook))
        failing_since = now if before is None else before.at
        if error is None or now - failing_since >= give_up * SECOND:
            await self._sessions.handle(session, note)
            return None
        await self._sessions.handle(session, msgspec.structs.replace(note, failed=True))
        return Stuck(step=cleanup.named(step.value, hook), error=error, since=failing_since)

    async def _attempt(self, hook: Hook, call: CleanupCall) -> str | None:
        """What went wrong, in a few words without secrets."""
        try:
            if hook.timeout is None:
                await called(hook.run, call)
            else:
                await self._attempts.asked(call.key, hook.run, call, seconds=hook.timeout)
        except Late:
            return f"it took longer than {hook.timeout:g} seconds"
        except Exception as error:  # foreign code: its failure is noted, and the session is looked at again later
            return scrub.brief(told(error), MAX_ERROR)
        return None


def step_of(name: str) -> Step:
    """The step of this name, or `Invalid` naming those there are."""
    try:
        return Step(name)
    except ValueError:
        names = ", ".join(step.value for step in ORDER)
        raise Invalid(f"{name!r} is not a step of the clean-up; use one of {names}", step=name) from None


def _applies(state: State, step: Step) -> bool:
    """Whether there is anything to do that is not a hook's."""
    match step:
        case Step.FLUSH:
            return state.phase not in TERMINAL
        case Step.RELEASE:
            return bool(cleanup.released(state.tools))
        case Step.NOTIFY:
            return any(True for _ in _others(state))
        case Step.SCRUB:
            return _scrub(state) is not None
        case _:
            return False


def _scrub(state: State) -> str | None:
    """What is to be scrubbed; what a newer version knows and this one does not means all."""
    wanted = state.config.scrub
    return wanted if wanted is None or wanted in SCRUBS else scrub.ALL


def _others(state: State) -> Iterator[SessionId]:
    """The sessions linked to this one, its children that have not ended, and the one it comes from."""
    lineage = state.origin.lineage
    parent = (state.origin.spawner or "",) if lineage is None else (lineage.parent,)
    for name in dict.fromkeys((*state.links.others, *state.children.open, *parent)):
        if name and name != state.session:
            yield SessionId(name)
