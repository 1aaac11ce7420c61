"""Those that are measured on the same memories, each in a process of its own: `python -m evals.contenders NAME`.

A document comes in (the embedder's name, and for each conversation its memories and its queries) and one goes out (for
each query what was found and the CPU it took). Every conversation has a fresh store, which is kind to whoever would
have to filter. Whatever asks for a network is refused and told of; the packages of a contender are loaded by it alone.
"""

import json
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, Protocol

import msgspec

from perdure.compose.memory import embedder_of
from perdure.core.memory.words import STOP
from perdure.ports.memory import Embedder, Item

K, DEEP = 10, 200
"""How many are asked for when the clock runs, and when ranks are looked at."""
_BARRED = frozenset({"socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "socket.sendto"})


class Contender(Protocol):
    """A store of memories that can be searched."""

    def keep(self, items: Sequence[Item]) -> None:
        """Take the memories of a conversation in."""

    def search(self, query: str, k: int) -> list[str]:
        """The ids of the best, best first."""

    def close(self) -> None:
        """Let go of it."""


class Dialog(msgspec.Struct):
    """The memories of a conversation, and what is looked for in it."""

    items: list[Item]
    queries: list[str]


class Task(msgspec.Struct):
    """What comes in."""

    embedder: str
    dialogs: list[Dialog]


class Answer(msgspec.Struct):
    """What goes out: one list of ids and one time for each query, in order."""

    versions: dict[str, str]
    found: list[list[str]]
    cpu: list[float]
    kept: int
    keeping: float


def told(item: Item) -> str:
    """A memory as one text, for those that have no place for who said it and when."""
    when = datetime.fromtimestamp(item.at / 1e6, UTC)
    return f"{item.author} ({when.day} {when:%B %Y}): {item.text}"


class Index:
    """Our index by itself, in RAM."""

    packages = ("perdure", "numpy")

    def __init__(self, name: str, folder: Path) -> None:
        from perdure.indexes.ram import RamIndex

        self._index = RamIndex(embedder_of(name))

    def keep(self, items: Sequence[Item]) -> None:
        """All at once."""
        self._index.add(items)

    def search(self, query: str, k: int) -> list[str]:
        """By the port."""
        return [found.id for found in self._index.search(query, k=k)]

    def close(self) -> None:
        """Nothing is held."""


class Library:
    """The library as an application uses it: a sealed store in a file."""

    packages = ("perdure", "numpy")

    def __init__(self, name: str, folder: Path) -> None:
        import perdure

        self._db = perdure.open(folder / "ours.db", memory=name)
        self._memory = self._db.memory("evals")

    def keep(self, items: Sequence[Item]) -> None:
        """In batches of the size that is allowed."""
        asked = [
            {
                "content": item.text,
                "author": item.author,
                "thread": item.thread,
                "valid_from": item.at,
                "metadata": {"turn": item.id},
            }
            for item in items
        ]
        for start in range(0, len(asked), 1_000):
            self._memory.add_many(asked[start : start + 1_000])

    def search(self, query: str, k: int) -> list[str]:
        """Without counting as use, so that no question changes the next one's answer."""
        return [found.memory.metadata["turn"] for found in self._memory.search(query, top_k=k, count=False)]

    def close(self) -> None:
        """Close the store."""
        self._db.close()


class Mem0:
    """mem0 over Qdrant in a folder, as it is installed: by vectors alone.

    What is kept is kept word for word (`infer=False`), so no model is asked.
    """

    packages: tuple[str, ...] = ("mem0ai", "qdrant-client", "numpy")

    def __init__(self, name: str, folder: Path) -> None:
        os.environ |= {"MEM0_TELEMETRY": "False", "MEM0_DIR": str(folder / "mem0")}
        from langchain_core.embeddings import Embeddings
        from mem0 import Memory

        embedder = _embedder(name)

        class Ours(Embeddings):
            """The embedder in LangChain's form."""

            def embed_documents(self, texts: list[str]) -> list[list[float]]:
                return _rows(embedder, texts)

            def embed_query(self, text: str) -> list[float]:
                return _rows(embedder, [text])[0]

        place = {"path": str(folder / "qdrant"), "embedding_model_dims": embedder.dimensions, "on_disk": True}
        self._memory = Memory.from_config(
            {
                "vector_store": {"provider": "qdrant", "config": {"collection_name": "evals", **place}},
                "embedder": {"provider": "langchain", "config": {"model": Ours()}},
                "llm": {"provider": "openai", "config": {"api_key": "never used"}},
                "history_db_path": str(folder / "history.db"),
            }
        )
        self._memory.vector_store._bm25_encoder = self._words(folder)

    def _words(self, folder: Path) -> Any:
        """What makes words searchable: nothing, as where its package is not installed."""
        return False

    def keep(self, items: Sequence[Item]) -> None:
        """One by one: a call keeps one set of metadata."""
        for item in items:
            said = [{"role": "user", "content": told(item), "name": item.author}]
            self._memory.add(said, user_id="evals", metadata={"turn": item.id}, infer=False)

    def search(self, query: str, k: int) -> list[str]:
        """Without its threshold, which would leave some out."""
        found = self._memory.search(query, top_k=k, filters={"user_id": "evals"}, threshold=0.0)
        return [each["metadata"]["turn"] for each in found["results"]]

    def close(self) -> None:
        """Close its stores."""
        self._memory.vector_store.client.close()
        self._memory.close()


class Mem0Words(Mem0):
    """mem0 with its search by words, whose package would fetch a list of stop words: it is given ours."""

    packages = ("mem0ai", "qdrant-client", "fastembed", "numpy")

    def _words(self, folder: Path) -> Any:
        from fastembed import SparseTextEmbedding

        return SparseTextEmbedding("Qdrant/bm25", specific_model_path=str(folder), stopwords=set(STOP))


class LangGraphMemory:
    """LangGraph's store in RAM."""

    packages: tuple[str, ...] = ("langgraph", "langgraph-checkpoint", "numpy")

    def __init__(self, name: str, folder: Path) -> None:
        embedder = _embedder(name)
        index = {"dims": embedder.dimensions, "embed": lambda texts: _rows(embedder, texts)}
        self._store: Any = self._made(index, folder)

    def _made(self, index: dict[str, Any], folder: Path) -> Any:
        from langgraph.store.memory import InMemoryStore

        return InMemoryStore(index=index)  # type: ignore[arg-type]

    def keep(self, items: Sequence[Item]) -> None:
        """All in one batch."""
        from langgraph.store.base import PutOp

        # Which field counts is said with each: the store in a file does not ask its settings.
        self._store.batch([PutOp(("evals",), item.id, {"text": told(item)}, index=["text"]) for item in items])

    def search(self, query: str, k: int) -> list[str]:
        """In the one namespace."""
        return [found.key for found in self._store.search(("evals",), query=query, limit=k)]

    def close(self) -> None:
        """Nothing is held."""


class LangGraphSqlite(LangGraphMemory):
    """LangGraph's store in a SQLite file, with sqlite-vec."""

    packages = ("langgraph", "langgraph-checkpoint-sqlite", "sqlite-vec", "numpy")

    def _made(self, index: dict[str, Any], folder: Path) -> Any:
        import pysqlite3  # many a Python's own SQLite loads no extensions
        from langgraph.store.sqlite import SqliteStore

        path = str(folder / "langgraph.db")
        self._connection = pysqlite3.connect(path, check_same_thread=False, isolation_level=None)
        store = SqliteStore(self._connection, index=index)
        store.setup()
        return store

    def close(self) -> None:
        """Close the file."""
        self._connection.close()


CONTENDERS: dict[str, type[Index | Library | Mem0 | LangGraphMemory]] = {
    "perdure": Library,
    "perdure-index": Index,
    "mem0": Mem0,
    "mem0-words": Mem0Words,
    "langgraph-memory": LangGraphMemory,
    "langgraph-sqlite": LangGraphSqlite,
}
OURS = ("perdure", "perdure-index")


def _embedder(name: str) -> Embedder:
    found = embedder_of(name)
    if found is None:
        sys.exit(f"{name} makes no vectors; name an embedder that all can share")
    return found


def _rows(embedder: Embedder, texts: Sequence[str]) -> list[list[float]]:
    rows: Any = embedder.embed(texts)
    return rows.tolist() if hasattr(rows, "tolist") else [list(row) for row in rows]


def bar_the_network() -> list[str]:
    """Refuse every connection from now on; what was tried stands in the list."""
    tried: list[str] = []

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event in _BARRED:
            tried.append(f"{event} {arguments[1:] if event == 'socket.connect' else arguments[:2]}")
            raise PermissionError("no network in a measure")

    sys.addaudithook(hook)
    return tried


def run(kind: type[Index | Library | Mem0 | LangGraphMemory], task: Task) -> Answer:
    """Keep and search every conversation, one after the other."""
    _embedder(task.embedder)  # loaded before the clock runs
    answer = Answer({}, [], [], 0, 0.0)
    for dialog in task.dialogs:
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            contender: Contender = kind(task.embedder, Path(folder))
            start = time.process_time()
            contender.keep(dialog.items)
            answer.keeping += time.process_time() - start
            answer.kept += len(dialog.items)
            contender.search("Is everything loaded?", K)
            for query in dialog.queries:
                start = time.process_time()
                contender.search(query, K)
                answer.cpu.append(time.process_time() - start)
                answer.found.append(contender.search(query, DEEP))
            contender.close()
    answer.versions = {package: version(package) for package in kind.packages}
    return answer


def main() -> None:
    """From standard input to standard output; whatever a package prints goes to standard error."""
    out, sys.stdout = sys.stdout, sys.stderr
    task = msgspec.json.decode(sys.stdin.buffer.read(), type=Task)
    tried = bar_the_network()
    answer = run(CONTENDERS[sys.argv[1]], task)
    if tried:
        sys.exit(f"{sys.argv[1]} asked for the network: {sorted(set(tried))}")
    json.dump(msgspec.to_builtins(answer), out)


if __name__ == "__main__":
    main()
