"""LangGraph's long-term memory in perdure: a `BaseStore` whose namespaces are sessions and whose items are notes.

A batch reads first and then writes one durable append for each namespace it changes; of several operations on one key
the last one counts. What was superseded, deleted or has expired is destroyed once more than half of a namespace's log
is dead, and by `compact` at once.
"""

import logging
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from datetime import UTC, datetime, timedelta
from threading import Event as Signal
from threading import Thread
from typing import Any, Final

import msgspec

import perdure
from perdure import errors
from perdure.adapters.parts import ranking, shelves
from perdure.adapters.parts.needing import Extra, store_of
from perdure.adapters.parts.shelves import Kept
from perdure.adapters.parts.shelving import Changes, Namespace, Shelving, fits, literal

with Extra("langgraph"):
    from langgraph.store.base import (
        BaseStore,
        GetOp,
        IndexConfig,
        Item,
        ListNamespacesOp,
        Op,
        PutOp,
        Result,
        SearchItem,
        SearchOp,
        TTLConfig,
        ensure_embeddings,
        get_text_at_path,
        validate_op_namespace,
    )
    from langgraph.store.base.embed import EmbeddingsLambda

MINUTE: Final = 60_000_000
LONGEST: Final = 1e9
"""Minutes, which is some two thousand years."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_log = logging.getLogger(__name__)


class PerdureStore(BaseStore):
    """Memory that lasts: `builder.compile(store=PerdureStore(db))`, for blocking and async graphs alike.

    Without an embedder a `query` ranks by the words of the items (BM25); with `index={"dims": …, "embed": …}` by the
    cosine of their vectors. Items without a score follow those that have one, newest first. `ttl` is LangGraph's
    configuration; what has expired is not shown any more, unless `omit_expired` is False.
    """

    supports_ttl = True

    def __init__(
        self,
        db: "perdure.Perdure | perdure.AsyncPerdure",
        *,
        index: IndexConfig | None = None,
        ttl: TTLConfig | None = None,
    ) -> None:
        super().__init__()
        self._db = store_of(db, "PerdureStore")
        self._shelving = Shelving(self._db)
        self.index_config = index
        self.ttl_config = ttl
        config = index or {}
        self._fields = shelves.paths(config.get("fields"))
        self._dims = _dims(config)
        self.embeddings = ensure_embeddings(config.get("embed")) if self._dims else None
        self._omits = bool((ttl or {}).get("omit_expired", True))
        self._sweeper: Thread | None = None
        self._stop = Signal()

    # ── batches ──

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Do the operations: first all that read, then all that write."""
        wanted, vectors = _admitted(ops), _Vectors()
        if self.embeddings is not None:
            queries, texts = self._to_embed(wanted)
            for query in queries:
                vectors.queries |= self._packed([query], _asked(self.embeddings, query))
            vectors.texts = self._packed(texts, self.embeddings.embed_documents(texts) if texts else [])
        return perdure.drive(self._batch(wanted, vectors))

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """Do the operations: first all that read, then all that write."""
        wanted, vectors = _admitted(ops), _Vectors()
        if self.embeddings is not None:
            queries, texts = self._to_embed(wanted)
            for query in queries:
                vectors.queries |= self._packed([query], await _aasked(self.embeddings, query))
            vectors.texts = self._packed(texts, await self.embeddings.aembed_documents(texts) if texts else [])
        return await self._batch(wanted, vectors)

    async def _batch(self, ops: Sequence[Op], vectors: "_Vectors") -> list[Result]:
        results: list[Result] = []
        changes: dict[Namespace, Changes] = {}
        now = self._db.now()
        for op in ops:
            match op:
                case GetOp():
                    results.append(await self._get(op, now, changes))
                case SearchOp():
                    results.append(await self._search(op, now, vectors, changes))
                case ListNamespacesOp():
                    results.append(await self._list(op, now))
                case PutOp():
                    changes.setdefault(op.namespace, Changes()).put(op.key, self._kept(op, now, vectors))
                    results.append(None)
        for namespace, change in changes.items():
            try:
                await self._shelving.write(namespace, change.notes)
            except errors.ReadOnly:
                if change.written:
                    raise  # but nobody minds that reading prolongs nothing in a store that is only read
        return results

    # ── reading ──

    async def _get(self, op: GetOp, now: int, changes: dict[Namespace, Changes]) -> Item | None:
        shelf = await self._shelving.shelf(op.namespace)
        kept = None if shelf is None else shelf.get(op.key)
        if kept is None or (self._omits and kept.expired(now)):
            return None
        if op.refresh_ttl:
            _touch(changes, op.namespace, kept, now)
        return Item(namespace=op.namespace, **_told(kept))

    async def _search(
        self, op: SearchOp, now: int, vectors: "_Vectors", changes: dict[Namespace, Changes]
    ) -> list[SearchItem]:
        found = [
            (namespace, kept)
            for namespace, shelf in await self._shelving.under(op.namespace_prefix)
            for kept in shelf.held(now if self._omits else None)
            if not op.filter or shelves.passes(kept.value, op.filter)
        ]
        found.sort(key=lambda pair: (-pair[1].updated, pair[0], -pair[1].version))
        scored: list[_Scored] = [(None, *pair) for pair in found]
        if op.query:
            scored = self._ranked(op.query, vectors.queries.get(op.query, b""), found)
        shown = scored[op.offset : op.offset + op.limit]
        if op.refresh_ttl:
            for _, namespace, kept in shown:
                _touch(changes, namespace, kept, now)
        return [SearchItem(namespace=namespace, score=score, **_told(kept)) for score, namespace, kept in shown]

    def _ranked(self, query: str, vector: bytes, found: Iterable[tuple[Namespace, Kept]]) -> "list[_Scored]":
        """Best first. With an embedder, what has no vector follows in the order of its words, without a score."""
        alike: list[_Scored] = []
        others: list[tuple[Namespace, Kept]] = []
        for namespace, kept in found:
            near = [ranking.cosine(vector, own) for own in kept.vectors if vector and len(own) == len(vector)]
            if near:
                alike.append((max(near), namespace, kept))
            else:
                others.append((namespace, kept))
        scores = ranking.bm25(query, [self._document(kept) for _, kept in others])
        by_words = sorted(zip(scores, others, strict=True), key=lambda pair: -pair[0])
        said: list[_Scored] = [(score if score and not vector else None, *pair) for score, pair in by_words]
        return [*sorted(alike, key=lambda item: -(item[0] or 0.0)), *said]

    def _document(self, kept: Kept) -> ranking.Document:
        if kept.document is None:
            kept.document = ranking.document(self._texts(kept.value, kept.index, whole=shelves.strings))
        return kept.document

    async def _list(self, op: ListNamespacesOp, now: int) -> list[Namespace]:
        conditions = op.match_conditions or ()
        prefixes = [literal(item.path) for item in conditions if item.match_type == "prefix"]
        found = {
            namespace[: op.max_depth]
            for namespace, shelf in await self._shelving.under(max(prefixes, key=len, default=()))
            if all(fits(namespace, item.match_type, item.path) for item in conditions)
            and shelf.held(now if self._omits else None)
        }
        return sorted(found)[op.offset : op.offset + op.limit]

    # ── what is written and embedded ──

    def _kept(self, op: PutOp, now: int, vectors: "_Vectors") -> Kept | None:
        """The item a put leaves behind; None for a delete."""
        if op.value is None:
            return None
        ttl = None if op.ttl is None else round(op.ttl * MINUTE)
        texts = self._texts(op.value, op.index) if vectors.texts else ()
        return Kept(
            key=op.key,
            value=dict(op.value),
            created=now,
            updated=now,
            ttl=ttl,
            expires=None if ttl is None else now + ttl,
            index=op.index,
            vectors=tuple(vectors.texts[text] for text in texts if text in vectors.texts),
        )

    def _texts(self, value: Mapping[str, Any], index: Any, whole: "_Whole | None" = None) -> list[str]:
        """What of an item is searched: the texts at its paths; of the whole item, its JSON, or what `whole` takes."""
        if index is False:
            return []
        paths = self._fields if index is None else index
        return [
            text
            for path in paths
            for text in (whole(value) if path == "$" and whole is not None else get_text_at_path(dict(value), path))
        ]

    def _to_embed(self, ops: Iterable[Op]) -> tuple[list[str], list[str]]:
        """Each query and each text of a batch, once; of a key that is put twice only what lasts."""
        ops = list(ops)
        last = {(op.namespace, op.key): op for op in ops if isinstance(op, PutOp)}
        queries = dict.fromkeys(op.query for op in ops if isinstance(op, SearchOp) and op.query)
        texts = dict.fromkeys(
            text for op in last.values() if op.value is not None for text in self._texts(op.value, op.index)
        )
        return list(queries), list(texts)

    def _packed(self, texts: Sequence[str], found: Any) -> dict[str, bytes]:
        if not ranking.listed(found):
            raise errors.Invalid(f"the embedder gave {type(found).__name__}; it must give a list of vectors")
        if len(texts) != len(found):
            raise errors.Invalid(f"the embedder gave {len(found)} vectors for {len(texts)} texts; it must give as many")
        return {text: ranking.packed(vector, self._dims) for text, vector in zip(texts, found, strict=True)}

    # ── forgetting ──

    def compact(self) -> None:
        """Destroy what was superseded, deleted or has expired, everywhere and now."""
        perdure.drive(self._shelving.compact())

    async def acompact(self) -> None:
        """Destroy what was superseded, deleted or has expired, everywhere and now."""
        await self._shelving.compact()

    def sweep_ttl(self) -> int:
        """Delete what has expired; how many items that were."""
        return perdure.drive(self._shelving.sweep())

    async def asweep_ttl(self) -> int:
        """Delete what has expired; how many items that were."""
        return await self._shelving.sweep()

    def start_ttl_sweeper(self, sweep_interval_minutes: float | None = None) -> "Future[None]":
        """Have a thread sweep again and again; cancel the future, or stop the sweeper, to end it."""
        future: Future[None] = Future()
        if not self.ttl_config:
            future.set_result(None)
            return future
        if self._sweeper is None or not self._sweeper.is_alive():
            self._stop = Signal()
            minutes = float(sweep_interval_minutes or self.ttl_config.get("sweep_interval_minutes") or 5)
            arguments = (weakref.ref(self), self._stop, minutes * 60, future)
            self._sweeper = Thread(target=_sweeping, args=arguments, name="perdure-ttl-sweeper", daemon=True)
            self._sweeper.start()
        stop = self._stop
        future.add_done_callback(lambda done: stop.set() if done.cancelled() else None)
        return future

    def stop_ttl_sweeper(self, timeout: float | None = None) -> bool:
        """End the sweeper; whether it has ended before the time-out, in seconds."""
        self._stop.set()
        if self._sweeper is not None:
            self._sweeper.join(timeout)
        return self._sweeper is None or not self._sweeper.is_alive()

    def __del__(self) -> None:
        """A sweeper does not outlive its store."""
        stop = getattr(self, "_stop", None)
        if stop is not None:
            stop.set()


_Scored = tuple[float | None, Namespace, Kept]
_Whole = Callable[[Any], Iterable[str]]


class _Vectors(msgspec.Struct):
    """The vectors a batch needs: of what is asked, and of each text that is put."""

    queries: dict[str, bytes] = {}
    texts: dict[str, bytes] = {}


def _sweeping(store: "weakref.ref[PerdureStore]", stop: Signal, seconds: float, future: "Future[None]") -> None:
    """The sweeper's thread: waits, sweeps, and ends when told to or when nobody holds the store any more."""
    while not stop.wait(seconds):
        found = store()
        if found is None:
            break
        try:
            found.sweep_ttl()
        except errors.StoreClosed:
            break
        except errors.PerdureError as error:
            _log.warning("sweeping expired items failed and is tried again: %s", error)
        del found
    if future.set_running_or_notify_cancel():
        future.set_result(None)


def _admitted(ops: Iterable[Op]) -> list[Op]:
    """The operations, all of them checked before the first is done."""
    found = list(ops)
    for op in found:
        match op:
            case PutOp():
                _admit_put(op)
            case SearchOp():
                _admit_search(op)
                _admit_page(op)
            case ListNamespacesOp():
                _admit_page(op)
            case GetOp():
                pass
            case _:
                raise errors.Invalid(
                    f"{type(op).__name__} is not an operation of a store; use those of langgraph.store"
                )
        validate_op_namespace(op)
    return found


def _admit_put(op: PutOp) -> None:
    value: Any = op.value
    if value is not None and not isinstance(value, Mapping):
        raise errors.Invalid(f"an item's value is a dict, or None to delete it, not {type(value).__name__}")
    if value is not None:
        shelves.admit_item(op.key, value)
    ttl: Any = op.ttl
    if ttl is not None and not (type(ttl) in (int, float) and 0 < ttl <= LONGEST):
        raise errors.Invalid(f"ttl is in minutes, above zero and at most {LONGEST:.0e}; None keeps the item", ttl=ttl)
    index: Any = op.index
    if index is not False:
        shelves.paths(index)


def _admit_page(op: SearchOp | ListNamespacesOp) -> None:
    depth = None if isinstance(op, SearchOp) else op.max_depth
    counts: list[Any] = [op.limit, op.offset, 0 if depth is None else depth]
    if not all(hasattr(count, "__index__") for count in counts):
        raise errors.Invalid("limit, offset and max_depth are whole numbers", given=repr(counts)[:80])


def _admit_search(op: SearchOp) -> None:
    query: Any = op.query
    if query is not None and not isinstance(query, str):
        raise errors.Invalid(f"a query is a text, or None for no ranking, not {type(query).__name__}")
    if op.filter and not isinstance(op.filter, Mapping):
        raise errors.Invalid(f"a filter is a dict, field by field, not {type(op.filter).__name__}")
    shelves.admit(op.filter)


def _asked(embedder: Any, query: str) -> Any:
    """The vectors of a query, as a list of one. LangGraph's wrapper of a function would look into them unseen."""
    if isinstance(embedder, EmbeddingsLambda):
        return embedder.embed_documents([query])
    return [embedder.embed_query(query)]


async def _aasked(embedder: Any, query: str) -> Any:
    """The vectors of a query, as a list of one."""
    if isinstance(embedder, EmbeddingsLambda):
        return await embedder.aembed_documents([query])
    return [await embedder.aembed_query(query)]


def _dims(config: Mapping[str, Any]) -> int:
    """How many dimensions vectors have; 0 where nothing is embedded."""
    if config.get("embed") is None:
        return 0
    dims = config.get("dims")
    if type(dims) is not int or dims < 1:
        raise errors.Invalid("say how many dimensions the embedder's vectors have: index={'dims': 1536, 'embed': …}")
    return dims


def _touch(changes: dict[Namespace, Changes], namespace: Namespace, kept: Kept, now: int) -> None:
    if (later := kept.touched(now)) is not None:
        changes.setdefault(namespace, Changes()).touched[kept.key] = msgspec.structs.replace(kept, expires=later)


def _told(kept: Kept) -> dict[str, Any]:
    """An item as LangGraph has it, its value the caller's own."""
    return {
        "key": kept.key,
        "value": shelves.copied(kept.value),
        "created_at": _EPOCH + timedelta(microseconds=kept.created),
        "updated_at": _EPOCH + timedelta(microseconds=kept.updated),
    }
