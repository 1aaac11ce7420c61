"""Whatever is put, forked, pruned and copied, in whatever order: the answers are those of LangGraph's own saver."""

import copy
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver

import perdure
from perdure.adapters.langgraph import PerdureSaver

SPACES = ("", "sub:1")

puts = st.tuples(
    st.just("put"),
    st.sampled_from(["", "", "", "sub:1"]),
    st.sampled_from([0, 0, 0, 1, 2, 3, 9]),
    st.lists(
        st.sampled_from(["say", "say two", "say", "drop first", "drop last", "edit", "swap", "clear"]), max_size=3
    ),
    st.sampled_from(["items", "scalar", "remove", "shrink", "none"]),
)
others = st.one_of(
    st.tuples(st.just("writes"), st.sampled_from(SPACES), st.integers(0, 4), st.integers(0, 2)),
    st.tuples(st.just("prune"), st.sampled_from(["keep_latest", "delete"])),
    st.tuples(st.just("runs"), st.integers(0, 3)),
    st.tuples(st.just("anew")),
)
moves = st.lists(st.tuples(st.lists(puts, min_size=1, max_size=6), others), min_size=1, max_size=6)


class Both:
    """The same calls to both savers."""

    def __init__(self, db: perdure.Perdure) -> None:
        self.db = db
        self.ours = PerdureSaver(db)
        self.theirs = InMemorySaver()
        self.count = 0
        self.known: dict[str, list[tuple[Any, dict[str, Any], dict[str, Any], str]]] = {}

    def next(self) -> int:
        self.count += 1
        return self.count

    def put(self, ns: str, back: int, talk: list[str], other: str) -> None:
        line = self.known.setdefault(ns, [])
        parent = line[-1 - back] if back < len(line) else None
        values = copy.deepcopy(parent[1]) if parent is not None else {}
        versions = dict(parent[2]) if parent is not None else {}
        changed: dict[str, Any] = {}
        if talk:
            values["messages"] = self.talked(values.get("messages", []), talk)
            changed["messages"] = self.next()
        if other == "items":
            values["items"] = [*values.get("items", []), {"n": self.next()}, "text", 7]
            changed["items"] = self.next()
        elif other == "shrink" and "items" in values:
            values["items"] = values["items"][:-1]
            changed["items"] = self.next()
        elif other == "scalar":
            values["scalar"] = {"n": self.next(), "set": {1, 2}}
            changed["scalar"] = self.next()
        elif other == "remove" and values.pop("scalar", None):
            changed["scalar"] = self.next()
        versions |= changed
        id = f"{self.next():032x}"
        checkpoint = {
            "v": 4,
            "id": id,
            "ts": "then",
            "channel_values": values,
            "channel_versions": versions,
            "versions_seen": {"node": versions},
            "updated_channels": sorted(changed),
        }
        config = parent[0] if parent is not None else _at("a", ns)
        metadata: Any = {"source": "loop", "step": len(line), "run_id": f"run{len(line) % 4}"}
        stored = self.ours.put(config, copy.deepcopy(checkpoint), metadata, changed)  # type: ignore[arg-type]
        self.theirs.put(config, copy.deepcopy(checkpoint), metadata, changed)  # type: ignore[arg-type]
        line.append((stored, values, versions, metadata["run_id"]))
        if ns == "":
            told = [item.content or item.tool_calls[0]["id"] for item in values.get("messages", [])]
            assert _said(self.db, "a") == told

    def talked(self, before: list[BaseMessage], talk: list[str]) -> list[BaseMessage]:
        found = list(before)
        for what in talk:
            number = self.next()
            match what:
                case "say":
                    found.append(HumanMessage(f"q{number}", id=str(number)))
                case "say two":
                    calls = [{"name": "look", "args": {"n": number}, "id": f"c{number}"}]
                    found += [
                        HumanMessage(f"q{number}", id=f"q{number}"),
                        AIMessage("", tool_calls=calls, id=f"{number}"),
                    ]
                case "drop first":
                    found = found[1:]
                case "drop last":
                    found = found[:-1]
                case "edit" if found:
                    at = number % len(found)
                    found[at] = AIMessage(f"edited {number}", id=found[at].id)
                case "swap":
                    found = found[1:] + found[:1]
                case "clear":
                    found = []
        return found

    def writes(self, ns: str, back: int, task: int) -> None:
        line = self.known.get(ns, [])
        if back < len(line):
            written = [("messages", [HumanMessage(f"w{self.next()}")]), ("__interrupt__", self.next())]
            for saver in (self.ours, self.theirs):
                saver.put_writes(line[-1 - back][0], written, f"task{task}", f"path{2 - task}")

    def forget(self, goes: Any) -> None:
        for ns, line in self.known.items():
            for index, (config, _, __, run) in enumerate(line):
                if goes(index, line, run):
                    id = config["configurable"]["checkpoint_id"]
                    self.theirs.storage["a"][ns].pop(str(id), None)
                    self.theirs.writes.pop(("a", ns, str(id)), None)
            line[:] = [item for index, item in enumerate(line) if not goes(index, list(line), item[3])]

    def do(self, move: Any) -> None:
        match move:
            case ("put", ns, back, talk, other):
                self.put(ns, back, talk, other)
            case ("writes", ns, back, task):
                self.writes(ns, back, task)
            case ("prune", strategy):
                self.ours.prune(["a"], strategy=strategy)
                self.forget(lambda index, line, _: strategy == "delete" or index < len(line) - 1)
            case ("runs", number):
                self.ours.delete_for_runs([f"run{number}"])
                self.forget(lambda _, __, run: run == f"run{number}")
            case ("anew",):
                self.ours = PerdureSaver(self.db)

    def agree(self) -> None:
        for saver in (self.ours, PerdureSaver(self.db)):
            for ns in SPACES:
                ours = [_plain(item) for item in saver.list(_at("a", ns))]
                theirs = [_plain(item) for item in self.theirs.list(_at("a", ns))]
                assert ours == theirs
                assert [_plain(saver.get_tuple(_at("a", ns)))] == (theirs[:1] or [None])
                for item in theirs:
                    assert item is not None
                    assert _plain(saver.get_tuple(_at("a", ns, item["id"]))) == item


def _at(thread: str, ns: str, id: str | None = None) -> Any:
    return {"configurable": {"thread_id": thread, "checkpoint_ns": ns} | ({"checkpoint_id": id} if id else {})}


def _plain(item: Any) -> dict[str, Any] | None:
    if item is None:
        return None
    parent = item.parent_config and item.parent_config["configurable"]["checkpoint_id"]
    return {
        "id": item.config["configurable"]["checkpoint_id"],
        "parent": parent,
        "checkpoint": item.checkpoint,
        "metadata": item.metadata,
        "writes": item.pending_writes,
    }


def _said(db: perdure.Perdure, thread: str) -> list[str]:
    found = db.named(thread).conversation()
    return [
        str(getattr(item.payloads[0], "content", None) or getattr(item.payloads[0], "call", None)) for item in found
    ]


@settings(max_examples=120)
@given(moves)
def test_the_answers_are_those_of_langgraphs_own_saver(steps: list[Any]) -> None:
    with perdure.open(":memory:") as db:
        both = Both(db)
        for some, other in steps:
            for step in (*some, other):
                both.do(step)
        both.agree()
        if both.known.get(""):
            both.ours.copy_thread("a", "b")
            for saver in (both.ours, PerdureSaver(db)):
                copied = [_plain(item) for item in saver.list({"configurable": {"thread_id": "b"}})]
                assert copied == [_plain(item) for item in saver.list({"configurable": {"thread_id": "a"}})]
            assert _said(db, "b") == _said(db, "a")
            assert db.named("b").verify().ok
        if both.count:
            assert db.named("a").verify().ok
