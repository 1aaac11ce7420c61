"""Waking, the context: evidence the session wants is used again while it is fresh, and retrieved again when it is not.

Evidence may lie in the session's own log and in a cache that sessions of one owner and isolation share; the fresher one
counts. Invariant: what is used is fresh enough, or has just been retrieved; what could not be had has no results.
"""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import Any, Final

import msgspec

from perdure.core.errors import Invalid, NotFound, RetrievalFailed
from perdure.core.session import codec
from perdure.core.session.answers import found_of
from perdure.core.session.quality import Retrieval, Wanted
from perdure.core.session.shown import shown
from perdure.core.session.state import State
from perdure.core.session.values import check, clone
from perdure.core.session.waking import (
    SECOND,
    Found,
    Question,
    Scope,
    WakePolicy,
    fresh_enough,
    freshness_of,
    retrieval_of,
)
from perdure.core.session.woken import Evidence, EvidenceOutcome
from perdure.ports.ambient import Ambient
from perdure.ports.store import Head
from perdure.ports.waking import Answer, RetrievalCache, Retriever
from perdure.services.foreign import Late, asked, called, fault, its_own_fault
from perdure.services.log import Log

CACHED: Final = 1024
EVERY: Final = "*"


class VolatileCache:
    """A `perdure.ports.waking.RetrievalCache` in RAM: bounded, the least used goes first, nothing outlives its time."""

    def __init__(self, ambient: Ambient, size: int = CACHED) -> None:
        self._ambient = ambient
        self._size = size
        self._kept: OrderedDict[bytes, tuple[int, int, Found]] = OrderedDict()

    def get(self, key: bytes) -> Found | None:
        """What is kept under a key, as a copy of the caller's own. A clock that was set back ends its time, too."""
        since, until, found = self._kept.get(key, (0, 0, None))
        if found is None or not since <= self._ambient.now() < until:
            self._kept.pop(key, None)
            return None
        self._kept.move_to_end(key)
        return Found(results=clone(found.results), fetched_at=found.fetched_at)

    def put(self, key: bytes, found: Found, ttl: float) -> None:
        """Keep a copy for so many seconds."""
        kept = Found(results=clone(found.results), fetched_at=found.fetched_at)
        now = self._ambient.now()
        self._kept[key] = (now, now + round(ttl * SECOND), kept)
        self._kept.move_to_end(key)
        while len(self._kept) > self._size:
            self._kept.popitem(last=False)


class Retrievers:
    """A `perdure.ports.waking.Retriever` made of functions, one for each kind of source; `*` takes the others."""

    def __init__(self) -> None:
        self._functions: dict[str, Callable[[Question], Answer[Any]]] = {}

    def register(self, source: str, function: Callable[[Question], Answer[Any]]) -> None:
        """Have a function fetch evidence from a kind of source."""
        if not callable(function):
            raise Invalid(f"a retriever is something to call, not {shown(function)}")
        self._functions[source] = function

    def retrieve(self, question: Question) -> Answer[Any]:
        """What the function for this kind of source answers; `NotFound` when there is none."""
        function = self._functions.get(question.source) or self._functions.get(EVERY)
        if function is None:
            raise NotFound(f"no retriever for source {question.source!r}; register one", source=question.source)
        return function(question)


class Rehydration:
    """Bringing a session's evidence up to date."""

    def __init__(self, ambient: Ambient, log: Log) -> None:
        self._ambient = ambient
        self._log = log
        self.retrievers = Retrievers()
        self.retriever: Retriever = self.retrievers
        self.cache: RetrievalCache = VolatileCache(ambient)

    async def rehydrated(self, head: Head, state: State, scope: Scope, policy: WakePolicy) -> tuple[Evidence, ...]:
        """Every piece of evidence the session wants; `RetrievalFailed` when a required one cannot be had."""
        return tuple([await self._one(head, name, scope, policy, state) for name in state.quality.wanted])

    async def recorded(self, head: Head, state: State, policy: WakePolicy) -> tuple[Evidence, ...]:
        """The evidence that lies in the log, however old it is."""
        found = []
        for name, wanted in state.quality.wanted.items():
            known = await self._in_log(head, wanted)
            outcome = EvidenceOutcome.FAILED if known is None else EvidenceOutcome.REUSED
            found.append(self._evidence(name, wanted, outcome, known, policy, "" if known else "the log has no answer"))
        return tuple(found)

    async def _one(self, head: Head, name: str, scope: Scope, policy: WakePolicy, state: State) -> Evidence:
        wanted, key = state.quality.wanted[name], key_of(scope, state.quality.wanted[name])
        remarks: list[str] = []
        known = (await self._in_log(head, wanted), await self._in_cache(key, name, wanted, policy, remarks))
        again = fresh_enough(known, wanted.source, self._ambient.now(), policy)
        if again is not None:
            return self._evidence(name, wanted, EvidenceOutcome.REUSED, again, policy, remarks=remarks)
        question = Question(id=name, query=wanted.query, source=wanted.source, scope=scope, deadline=policy.deadline)
        try:
            results = await asked(self.retriever.retrieve, question, seconds=policy.deadline)
            found = Found(results=results, fetched_at=self._ambient.now())
            _must_be_storable(name, wanted, found, policy)
        except Late:
            reason = f"there was no answer within {policy.deadline:g} seconds"
        except Exception as error:  # a retriever is foreign code: whatever it raises is its failure
            reason = fault(error)
        else:
            await self._remember(key, found, policy, remarks)
            return self._evidence(name, wanted, EvidenceOutcome.RETRIEVED, found, policy, remarks=remarks)
        if wanted.required:
            raise RetrievalFailed(
                f"evidence {name!r}, which session {scope.session} requires, could not be retrieved: {reason}; mend "
                "its source and wake the session again",
                session=scope.session,
                retrieval=name,
                source=wanted.source,
                reason=reason,
            )
        return self._evidence(name, wanted, EvidenceOutcome.FAILED, None, policy, reason, remarks)

    def _evidence(
        self,
        name: str,
        wanted: Wanted,
        outcome: EvidenceOutcome,
        found: Found | None,
        policy: WakePolicy,
        reason: str = "",
        remarks: Sequence[str] = (),
    ) -> Evidence:
        return Evidence(
            id=name,
            query=wanted.query,
            source=wanted.source,
            required=wanted.required,
            outcome=outcome,
            results=None if found is None else found.results,
            fetched_at=None if found is None else found.fetched_at,
            freshness=0.0 if found is None else freshness_of(found, wanted.source, self._ambient.now(), policy),
            reason=reason,
            remark="; ".join(remarks),
        )

    async def _in_log(self, head: Head, wanted: Wanted) -> Found | None:
        """The answer the log holds, unless it was pruned or redacted."""
        if wanted.version is None or wanted.answered is None or wanted.version <= head.anchor_version:
            return None
        for event in await self._log.events(head, wanted.version - 1, wanted.version):
            if isinstance(event.data, Retrieval) and not event.redacted:
                return Found(results=event.data.results, fetched_at=wanted.answered)
        return None

    async def _in_cache(
        self, key: bytes, name: str, wanted: Wanted, policy: WakePolicy, remarks: list[str]
    ) -> Found | None:
        try:
            answer = await called(self.cache.get, key)
            with its_own_fault():
                found = found_of(answer, self._ambient.now())
            if found is not None:
                _must_be_storable(name, wanted, found, policy)
        except Exception as error:  # a cache is foreign code: one that fails has nothing
            remarks.append(f"retrieval cache: get: {fault(error)}")
            return None
        return found

    async def _remember(self, key: bytes, found: Found, policy: WakePolicy, remarks: list[str]) -> None:
        try:
            await called(self.cache.put, key, found, policy.cache_ttl)
        except Exception as error:  # and only a cache: waking goes on without it
            remarks.append(f"retrieval cache: put: {fault(error)}")


def _must_be_storable(name: str, wanted: Wanted, found: Found, policy: WakePolicy) -> None:
    """Refuse evidence that is no plain data, or more than the log could hold if it is to be written there."""
    if policy.record_evidence:
        codec.encode_struct(retrieval_of(name, wanted, found))
    else:
        check(found.results)


def key_of(scope: Scope, wanted: Wanted) -> bytes:
    """Under what evidence is cached: the question, and for whom it was asked; others have to ask themselves."""
    isolation = msgspec.to_builtins(scope.isolation)
    return sha256(codec.encode([scope.tenant, scope.owner, isolation, wanted.source, wanted.query])).digest()
