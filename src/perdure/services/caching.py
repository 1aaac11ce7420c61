"""Answers of models, kept in this process to be given again: to the same ask, or, if wanted, to one that is much alike.

Invariants: nobody sees an answer that was kept in another scope (tenant, access boundary, provider). The bytes kept
never exceed their bound: what was not used for longest goes first. What is kept is bytes, so no reader can change what
the next one gets; as a stream it is given by `folding.pieces_of`. A process that forks leaves its child nothing, or
what is forgotten here would live on there.
"""

from collections import OrderedDict
from collections.abc import Callable
from heapq import nsmallest
from threading import Lock
from typing import Final, Literal

import msgspec

from perdure.core.errors import Invalid
from perdure.core.talk.fingerprints import (
    Question,
    Scope,
    fingerprint,
    is_keepable,
    is_sampled,
    question,
    self_contained,
)
from perdure.core.talk.likeness import Embedding, Vector, apart, embedding, likeness, needed, vector
from perdure.core.talk.parts import Answer, Ask
from perdure.forking import Forking, on_fork

__all__ = ["Caching", "Hit", "Scope", "Stats"]

MAX_BYTES: Final = 64 * 1024 * 1024
TTL: Final = 3_600
THRESHOLD: Final = 0.9
SECOND: Final = 1_000_000
NEAREST: Final = 16
"""How many of those whose sketches are nearest are measured."""
_AROUND: Final = 600
"""Bytes that an entry takes beside its answer."""
_WRITING: Final = msgspec.msgpack.Encoder()
_READING: Final = msgspec.msgpack.Decoder(Answer)


class Hit(msgspec.Struct, frozen=True, kw_only=True):
    """An answer that was kept. Its usage is what it cost then; nothing was used now."""

    answer: Answer
    kind: Literal["exact", "semantic"]
    likeness: float = 1.0
    session: str | None = None
    """Where it comes from, and when it was kept, in microseconds: whoever gives it away sees that both still hold."""
    at: int = 0


class Stats(msgspec.Struct, frozen=True, kw_only=True):
    """What the cache did for a tenant. `bypassed` are asks that could not be or were not to be answered from it;
    `evicted` are entries that went for want of room or because their time was over.
    """

    exact: int = 0
    semantic: int = 0
    misses: int = 0
    bypassed: int = 0
    kept: int = 0
    evicted: int = 0
    forgotten: int = 0
    entries: int = 0
    bytes: int = 0


class _Entry(msgspec.Struct, frozen=True, kw_only=True):
    scope: Scope
    session: str | None
    at: int
    until: int
    answer: bytes
    size: int
    frame: bytes | None = None
    vector: Vector | None = None


class Caching:
    """Answers that were kept. Safe to use from many tasks and threads at once; no call waits for anything."""

    def __init__(
        self,
        now: Callable[[], int],
        *,
        max_bytes: int = MAX_BYTES,
        ttl: int = TTL,
        embed: Callable[[str], Embedding] | None = None,
        threshold: float = THRESHOLD,
    ) -> None:
        """`now` tells microseconds, `ttl` is in seconds. `embed` makes a vector of a question, quickly and without
        fail; the built-in one is crude. A `threshold` of 1 asks for the same direction, a lower one for less.
        """
        if max_bytes < 0 or ttl < 0 or not 0 < threshold <= 1:
            raise Invalid("a cache has room and a ttl of 0 or more, and a threshold above 0 and up to 1; correct them")
        self._now = now
        self._max_bytes = max_bytes
        self._ttl = ttl
        self._embed = embed or embedding
        self._threshold = threshold
        self._begin()
        on_fork(self, Forking(_nothing, _nothing, Caching._begin))

    def _begin(self) -> None:
        self._lock = Lock()
        self._entries: OrderedDict[bytes, _Entry] = OrderedDict()
        self._frames: dict[bytes, set[bytes]] = {}
        self._stats: dict[str, Stats] = {}
        self._bytes = 0

    def look(
        self, scope: Scope, ask: Ask, *, semantic: bool = False, sampled: bool = False, bypass: bool = False
    ) -> Hit | None:
        """The answer to this ask, if it is kept; with `semantic`, also one to a question that is much alike after the
        very same history. An ask with a temperature above zero is answered only with `sampled`. With `bypass` the
        cache is not asked, only told.
        """
        key = None if bypass else self._key(scope, ask, sampled=sampled)
        if key is None:
            with self._lock:
                self._count(scope.tenant, bypassed=1)
            return None
        with self._lock:
            found = self._fresh(key)
            if found is not None:
                self._entries.move_to_end(key)
                self._count(scope.tenant, exact=1)
        if found is not None:
            return Hit(answer=_READING.decode(found.answer), kind="exact", session=found.session, at=found.at)
        alike = self._alike(scope, ask) if semantic else None
        with self._lock:
            self._count(scope.tenant, **({"misses": 1} if alike is None else {"semantic": 1}))
        return alike

    def keep(
        self,
        scope: Scope,
        ask: Ask,
        answer: Answer,
        ttl: int | None = None,
        *,
        session: str | None = None,
        semantic: bool = False,
        sampled: bool = False,
    ) -> bool:
        """Keep a whole answer for as long as it lives; whether it was kept is said. Never kept are answers that call
        tools, refuse or were cut short, and those to asks that are not all there is to them. A stream that broke off
        makes no answer: do not hand it over. `session` is where it comes from, so that it can be forgotten with it;
        with `semantic` it can be found by questions that are alike.
        """
        lives = self._ttl if ttl is None else ttl
        key = self._key(scope, ask, sampled=sampled) if lives > 0 and is_keepable(answer) else None
        if key is None:
            return False
        try:
            data = _WRITING.encode(answer)
        except (msgspec.MsgspecError, OverflowError, UnicodeError, TypeError, RecursionError):
            return False
        asked, found = self._asked(scope, ask) if semantic else (None, None)
        size = len(data) + _AROUND + (found.size if found else 0)
        entry = _Entry(
            scope=scope,
            session=session,
            at=self._now(),
            until=self._now() + lives * SECOND,
            answer=data,
            size=size,
            frame=asked.frame if asked and found else None,
            vector=found,
        )
        with self._lock:
            return self._put(key, entry)

    def forget(self, tenant: str | None = None, *, access: str | None = None, session: str | None = None) -> int:
        """Drop what was kept for a tenant, within an access boundary, from a session, or from where all that is named
        agrees; without any, everything. Says how many answers went.
        """
        with self._lock:
            gone = [
                key
                for key, entry in self._entries.items()
                if tenant in (None, entry.scope.tenant)
                and access in (None, entry.scope.access)
                and session in (None, entry.session)
            ]
            for key in gone:
                self._count(self._drop(key).scope.tenant, forgotten=1)
        return len(gone)

    def stats(self, tenant: str) -> Stats:
        """What the cache did for a tenant in this process, and what it holds for it now."""
        with self._lock:
            return self._stats.get(tenant, Stats())

    # ── finding ──

    def _key(self, scope: Scope, ask: Ask, *, sampled: bool) -> bytes | None:
        """Under what an answer is kept; None where it may not be."""
        if (is_sampled(ask) and not sampled) or not self_contained(ask):
            return None
        return fingerprint(scope, ask)

    def _asked(self, scope: Scope, ask: Ask) -> tuple[Question | None, Vector | None]:
        asked = question(scope, ask)
        return asked, None if asked is None else vector(self._embed(asked.text))

    def _alike(self, scope: Scope, ask: Ask) -> Hit | None:
        asked, mine = self._asked(scope, ask)
        if asked is None or mine is None:
            return None
        with self._lock:
            held = [(key, self._entries[key]) for key in self._frames.get(asked.frame, ())]
        now = self._now()
        known = [(key, entry.vector) for key, entry in held if entry.vector and entry.until > now]
        near = nsmallest(NEAREST, ((apart(mine, other), key, other) for key, other in known))
        best, key = max(((likeness(mine, other), key) for _, key, other in near), default=(0.0, b""))
        if best < needed(self._threshold, asked.text):
            return None
        with self._lock:
            found = self._fresh(key)
            if found is None:
                return None
            self._entries.move_to_end(key)
        answer = _READING.decode(found.answer)
        return Hit(answer=answer, kind="semantic", likeness=min(1.0, best), session=found.session, at=found.at)

    # ── keeping, under the lock ──

    def _fresh(self, key: bytes) -> _Entry | None:
        entry = self._entries.get(key)
        if entry is not None and entry.until <= self._now():
            self._evict(key)
            return None
        return entry

    def _put(self, key: bytes, entry: _Entry) -> bool:
        if entry.size > self._max_bytes:
            return False
        if key in self._entries:
            self._drop(key)
        while self._bytes + entry.size > self._max_bytes:
            self._evict(next(iter(self._entries)))
        self._entries[key] = entry
        self._bytes += entry.size
        if entry.frame is not None:
            self._frames.setdefault(entry.frame, set()).add(key)
        self._count(entry.scope.tenant, kept=1, entries=1, bytes=entry.size)
        return True

    def _evict(self, key: bytes) -> None:
        self._count(self._drop(key).scope.tenant, evicted=1)

    def _drop(self, key: bytes) -> _Entry:
        entry = self._entries.pop(key)
        self._bytes -= entry.size
        if entry.frame is not None:
            self._frames[entry.frame].discard(key)
            if not self._frames[entry.frame]:
                del self._frames[entry.frame]
        self._count(entry.scope.tenant, entries=-1, bytes=-entry.size)
        return entry

    def _count(self, tenant: str, **more: int) -> None:
        stats = self._stats.get(tenant, Stats())
        counted = {name: getattr(stats, name) + count for name, count in more.items()}
        self._stats[tenant] = msgspec.structs.replace(stats, **counted)


def _nothing(_: Caching) -> None:
    """Before a fork nothing need be let go."""
