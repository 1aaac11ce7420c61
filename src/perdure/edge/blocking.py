"""The library for blocking callers: one façade over the async one, not a twin.

Every method here is the async method of the same name, driven to its end on the calling thread. There is no event
loop and no thread behind it, so it works in scripts, threads, notebooks and after a fork. Turns with models are the
one exception: they go on when nobody waits for them, on a thread that the first of them starts.
"""

import os
from collections.abc import Callable, Coroutine, Iterator
from functools import wraps
from io import BufferedReader
from types import TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Self, TypeVar, Unpack, overload

from perdure.compose import StoreGiven, embedded
from perdure.core.session.declared import Declared
from perdure.core.session.event import Event
from perdure.core.session.origin import Timeouts
from perdure.core.session.values import Ref
from perdure.edge.blobs import AsyncBlobs, BlobFile
from perdure.edge.driving import Blocking, blocking, each, each_closed, passing
from perdure.edge.given import memory_of
from perdure.edge.library import AsyncPerdure
from perdure.edge.session import AsyncSession
from perdure.edge.talking import Asking, talk_of
from perdure.edge.timing import GIVE_UP, HOOK, LEASE, Seconds, hook_name, timeouts_of
from perdure.edge.turn import AsyncTurn
from perdure.ports.ambient import Ambient
from perdure.ports.blobs import CHUNK
from perdure.ports.store import Change
from perdure.sealing.given import Given, KeyGiven, VaultGiven
from perdure.waiting import drive

if TYPE_CHECKING:
    from perdure.compose.memory import MemorySettings
    from perdure.compose.talking import Talk
    from perdure.core.talk.turning import TurnEvent
    from perdure.edge.memory import MemorySpace
    from perdure.edge.sourcing import MemorySource
    from perdure.edge.tools import Tools
    from perdure.services.cleanup import CleanupCall
    from perdure.services.loading import SnapshotPolicy
    from perdure.services.sharing import KnownSpace
    from perdure.services.timeouts import SweepReport

P = ParamSpec("P")
R = TypeVar("R")


def returning_session(
    method: Callable[Concatenate[Any, P], Coroutine[Any, Any, AsyncSession]],
) -> Callable[Concatenate[Blocking, P], "Session"]:
    """Like `blocking`, for methods that give back a session."""
    name = method.__name__

    @wraps(method)
    def call(self: Blocking, /, *args: P.args, **kwargs: P.kwargs) -> "Session":
        return Session(drive(getattr(self._behind, name)(*args, **kwargs)))

    return call


class Turn(Blocking):
    """An open turn. Every call is one durable append; leaving the block ends the turn."""

    _behind: AsyncTurn

    def __enter__(self) -> Self:
        drive(self._behind.__aenter__())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        drive(self._behind.__aexit__(kind, error, trace))

    @property
    def number(self) -> int:
        """Which turn of the session this is."""
        return self._behind.number

    def count(self, tokens_in: int, tokens_out: int) -> None:
        """The tokens to note when the turn ends."""
        self._behind.count(tokens_in, tokens_out)

    say = blocking(AsyncTurn.say)
    answer = blocking(AsyncTurn.answer)
    ask = blocking(AsyncTurn.ask)
    start = blocking(AsyncTurn.start)
    finish = blocking(AsyncTurn.finish)


class Session(Blocking):
    """A handle on one session. It holds nothing but the id: everything is read from the store."""

    _behind: AsyncSession

    @property
    def id(self) -> str:
        """The session's id."""
        return self._behind.id

    def __repr__(self) -> str:
        return f"Session({self.id})"

    def turn(self, text: Any = None, *, model: str | None = None, agent: str | None = None) -> Turn:
        """A turn as a block; an exception inside leaves it interrupted."""
        return Turn(self._behind.turn(text, model=model, agent=agent))

    def watch(self, after: int | None = None) -> Iterator[Change]:
        """Changes of this session as they are committed, by anyone."""
        return each(self._behind.watch(after))

    def backwards(self, page: int = 256) -> Iterator[list[Event]]:
        """The log newest first, a page of appends at a time, for readers that stop early."""
        return each(self._behind.backwards(page))

    @overload
    def vars(self) -> dict[str, Any]: ...
    @overload
    def vars(self, declared: Declared[R]) -> R: ...
    def vars(self, declared: Declared[Any] | None = None) -> Any:
        """The application's own state: the plain document, or the type it declared, migrated if it is older."""
        return drive(self._behind.vars() if declared is None else self._behind.vars(declared))

    def diff(self, other: "Session | int", *, version: int | None = None) -> Any:
        """What leads from this session's vars and scratchpads to another's, or from a version to the present one."""
        behind = other._behind if isinstance(other, Session) else other
        return drive(self._behind.diff(behind, version=version))

    def merge(self, source: "Session", policy: str = "escalate", *, summary: str | None = None) -> Any:
        """Take over another session's vars and scratchpads, three-way."""
        behind: Any = getattr(source, "_behind", source)
        return drive(self._behind.merge(behind, policy, summary=summary))

    def stream(self, content: Any = None, **asked: Unpack[Asking]) -> "Iterator[TurnEvent]":
        """A turn as it goes, event by event, until it is over or waits for somebody. It goes on if nobody looks."""
        return each_closed(self._behind.stream(content, **asked))

    send = blocking(AsyncSession.send)
    steer = blocking(AsyncSession.steer)
    follow_up = blocking(AsyncSession.follow_up)
    interrupt = blocking(AsyncSession.interrupt)
    approve = blocking(AsyncSession.approve)
    approvals = blocking(AsyncSession.approvals)
    context = blocking(AsyncSession.context)
    grounds = blocking(AsyncSession.grounds)
    spawn = blocking(AsyncSession.spawn)
    children = blocking(AsyncSession.children)
    wait_for_children = blocking(AsyncSession.wait_for_children)
    info = blocking(AsyncSession.info)
    version = blocking(AsyncSession.version)
    state = blocking(AsyncSession.state)
    events = blocking(AsyncSession.events)
    turns = blocking(AsyncSession.turns)
    tail = blocking(AsyncSession.tail)
    append = blocking(AsyncSession.append)
    record = blocking(AsyncSession.record)
    recorded = blocking(AsyncSession.recorded)
    retract = blocking(AsyncSession.retract)
    conversation = blocking(AsyncSession.conversation)
    attach = blocking(AsyncSession.attach)
    configure = blocking(AsyncSession.configure)
    set_vars = blocking(AsyncSession.set_vars)
    patch_vars = blocking(AsyncSession.patch_vars)
    scratchpad = blocking(AsyncSession.scratchpad)
    write_scratchpad = blocking(AsyncSession.write_scratchpad)
    reserve = blocking(AsyncSession.reserve)
    settle = blocking(AsyncSession.settle)
    correct = blocking(AsyncSession.correct)
    account = blocking(AsyncSession.account)
    costs = blocking(AsyncSession.costs)
    move = blocking(AsyncSession.move)
    activate = blocking(AsyncSession.activate)
    suspend = blocking(AsyncSession.suspend)
    complete = blocking(AsyncSession.complete)
    terminate = blocking(AsyncSession.terminate)
    compensate = blocking(AsyncSession.compensate)
    archive = blocking(AsyncSession.archive)
    thaw = blocking(AsyncSession.thaw)
    recover = blocking(AsyncSession.recover)
    renew = blocking(AsyncSession.renew)
    clean_up = blocking(AsyncSession.clean_up)
    roll_back = blocking(AsyncSession.roll_back)
    checkpoint = blocking(AsyncSession.checkpoint)
    checkpoints = blocking(AsyncSession.checkpoints)
    pin = blocking(AsyncSession.pin)
    unpin = blocking(AsyncSession.unpin)
    drop_checkpoint = blocking(AsyncSession.drop_checkpoint)
    restore = blocking(AsyncSession.restore)
    branches = blocking(AsyncSession.branches)
    lineage = blocking(AsyncSession.lineage)
    resolve = blocking(AsyncSession.resolve)
    redact = blocking(AsyncSession.redact)
    prune = blocking(AsyncSession.prune)
    erase = blocking(AsyncSession.erase)
    verify = blocking(AsyncSession.verify)
    export = blocking(AsyncSession.export)
    mirror = blocking(AsyncSession.mirror)
    wake = blocking(AsyncSession.wake)
    resume = returning_session(AsyncSession.resume)
    branch = returning_session(AsyncSession.branch)
    rewind = returning_session(AsyncSession.rewind)
    edit = returning_session(AsyncSession.edit)


class Blobs(Blocking):
    """Images, files and other content too large for the log, kept once per content."""

    _behind: AsyncBlobs

    def open(self, ref: Ref | str) -> BufferedReader:
        """A blob as a binary file, to read from any place; `BlobMissing` when it is not here."""
        uri = ref.uri if isinstance(ref, Ref) else ref
        return BufferedReader(BlobFile(drive(self._behind.open(ref)), uri), CHUNK)

    put = blocking(AsyncBlobs.put)
    get = blocking(AsyncBlobs.get)
    save = blocking(AsyncBlobs.save)
    stat = blocking(AsyncBlobs.stat)
    list = blocking(AsyncBlobs.list)
    collect = blocking(AsyncBlobs.collect)
    verify = blocking(AsyncBlobs.verify)
    export = blocking(AsyncBlobs.export)
    import_folder = blocking(AsyncBlobs.import_folder)


class Perdure(Blocking):
    """An open store. Use it as a context manager, or close it when done."""

    _behind: AsyncPerdure

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def blobs(self) -> Blobs:
        """Images, files and other content too large for the log."""
        return Blobs(self._behind.blobs)

    @property
    def aio(self) -> AsyncPerdure:
        """The same store for async code, in this process; it is closed once, here or there."""
        return self._behind

    def named(self, name: str) -> Session:
        """The handle of the session that goes by a name, made or not: the same name leads to the same session from
        everywhere, and a session's id to itself. Make it with `create(name=…)`.
        """
        return Session(self._behind.named(name))

    def memory(
        self, agent: str | None = None, *, owner: str | None = None, clade: str | None = None, lethe: bool = False
    ) -> "MemorySpace":
        """What is remembered across sessions: in the vault of an agent, in a clade of siblings, or in lethe, which is
        everybody's. Without a name, in the vault of whoever has the store open; with an owner, in theirs.
        """
        from perdure.edge.memory import MemorySpace

        return MemorySpace(self._behind.memory(agent, owner=owner, clade=clade, lethe=lethe))

    def spaces(self) -> "Iterator[KnownSpace]":
        """The spaces of memories that were begun, and that may be read here; those begun last first."""
        return each(self._behind.spaces())

    def memories_from(
        self, *, session: Any = None, writer: str | None = None, uri: str | None = None
    ) -> "MemorySource":
        """Whatever comes from one source, in every space: a session (its handle or id), a writer, or an address."""
        from perdure.edge.sourcing import MemorySource

        return MemorySource(self._behind.memories_from(session=session, writer=writer, uri=uri))

    def watch(self, after: int | None = None, session: str | None = None) -> Iterator[Change]:
        """Changes as they are committed by anyone, from a position on, or from now."""
        return each(self._behind.watch(after, session))

    def before(self, move: str, hook: Callable[["Session", Any], Any]) -> None:
        """Call `hook` before a move, or every move (`*`); if it raises, the move is not made."""
        self._behind.before(move, lambda session, moved: hook(Session(session), moved))

    def after(self, move: str, hook: Callable[["Session", Any], Any]) -> None:
        """Call `hook` after a move, or every move (`*`)."""
        self._behind.after(move, lambda session, moved: hook(Session(session), moved))

    def before_branch(self, hook: Callable[["Session", int, str], Any]) -> None:
        """Call `hook` with session, version and kind before every branch; if it raises, none is made."""
        self._behind.before_branch(lambda session, version, kind: hook(Session(session), version, kind))

    def sweeper(
        self, interval: Seconds = 60.0, *, lease: Seconds = LEASE, give_up: Seconds = GIVE_UP
    ) -> "Iterator[SweepReport]":
        """Sweep, give the report, wait for the interval, and so on for as long as somebody asks."""
        return each(self._behind.sweeper(interval, lease=lease, give_up=give_up))

    def cleanup(
        self,
        step: str,
        hook: "Callable[[Session, CleanupCall], Any]",
        *,
        name: str | None = None,
        timeout: Seconds | None = HOOK,
    ) -> None:
        """Call `hook` with session and call in a step of the clean-up: flush, release, notify, analytics, promote or
        scrub. One that raises, or takes longer than `timeout`, is called again later, with the same `call.key`, and
        given up after a day. It runs on a thread of its own, and on this one with `timeout=None`.
        """
        chosen = hook_name(hook, name)
        self._behind.cleanup(step, lambda session, call: hook(Session(session), call), name=chosen, timeout=timeout)

    webhook = passing(AsyncPerdure.webhook)

    def compensation(self, name: str, undo: Callable[["Session", dict[str, Any]], Any]) -> None:
        """Say how to undo what was registered under a name, should its session be terminated."""
        self._behind.compensation(name, lambda session, arguments: undo(Session(session), arguments))

    @property
    def tools(self) -> "Tools":
        """The tools this process offers to models, `db.tools.register("add", add)`, and to sessions that wake, by their
        versions: `db.tools.register("search", "1.4.0", search)`.
        """
        return self._behind.tools

    now = passing(AsyncPerdure.now)
    retriever = passing(AsyncPerdure.retriever)
    wake_with = passing(AsyncPerdure.wake_with)
    create = returning_session(AsyncPerdure.create)
    session = returning_session(AsyncPerdure.session)
    import_jsonl = returning_session(AsyncPerdure.import_jsonl)
    import_report = blocking(AsyncPerdure.import_report)
    archive = blocking(AsyncPerdure.archive)
    archive_ended = blocking(AsyncPerdure.archive_ended)
    archived_size = blocking(AsyncPerdure.archived_size)
    restore_archived = blocking(AsyncPerdure.restore_archived)
    backup = blocking(AsyncPerdure.backup)
    sign_heads = blocking(AsyncPerdure.sign_heads)
    check_heads = blocking(AsyncPerdure.check_heads)
    find = blocking(AsyncPerdure.find)
    count = blocking(AsyncPerdure.count)
    recover = blocking(AsyncPerdure.recover)
    expire_checkpoints = blocking(AsyncPerdure.expire_checkpoints)
    account = blocking(AsyncPerdure.account)
    verify = blocking(AsyncPerdure.verify)
    inspect = blocking(AsyncPerdure.inspect)
    position = blocking(AsyncPerdure.position)
    sweep = blocking(AsyncPerdure.sweep)
    rearm = blocking(AsyncPerdure.rearm)
    close = blocking(AsyncPerdure.close)


def open(  # the name users expect; nothing in this module opens files
    path: StoreGiven,
    *,
    tenant: str = "local",
    actor: str = "local",
    read_only: bool = False,
    ambient: Ambient | None = None,
    snapshots: "SnapshotPolicy | None" = None,
    seal: bool | None = None,
    key: KeyGiven = None,
    vault: VaultGiven = None,
    cold: str | os.PathLike[str] | None = None,
    timeouts: Timeouts | dict[str, Any] | None = None,
    talk: "Talk | None" = None,
    memory: "MemorySettings | dict[str, Any] | str | None" = None,
) -> Perdure:
    """Open a store; a new file is created. `:memory:` keeps everything in RAM, `postgresql://…` in a database; a path
    for each tier (`{"L0": ":memory:", "L1": "agent.db"}`) puts each session where its `criticality` asks for.

    A new store is sealed unless `seal` is False: its master key is made at `key` (else `<path>.master`), its vault of
    salts at `vault` (else `<path>.keys`). An old one is opened as it was made, with the key and vault found there.
    Archived sessions lie in `cold`: a folder, or `s3://bucket/prefix`. Sessions without time-outs of their own have
    `timeouts`. `talk` (`perdure.models.Talk`) says which models they talk to; the built-in one needs no key. `memory`
    (`perdure.memory.MemorySettings`) says how memories are found.
    """
    services = embedded(
        path,
        tenant=tenant,
        actor=actor,
        read_only=read_only,
        ambient=ambient,
        snapshots=snapshots,
        cold=cold,
        keys=Given(seal, key, vault),
        timeouts=timeouts_of(timeouts),
        talk=talk_of(talk),
        memory=memory_of(memory),
    )
    return Perdure(AsyncPerdure(services))
