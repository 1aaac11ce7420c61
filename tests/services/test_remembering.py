"""Memory in turns: shown within its budget, the same while nothing changes, gone when it is forgotten, and weighed."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest

from perdure.compose import embedded
from perdure.compose.memory import MemorySettings
from perdure.core.errors import ProviderDown, StoreClosed
from perdure.core.memory.parts import LETHE, Memory, MemoryType, Source, Space, Status, vault
from perdure.core.memory.requests import Keeping
from perdure.core.session.memories import MemoriesCited, MemoriesRecalled
from perdure.core.session.origin import Isolation
from perdure.core.talk.context import Context
from perdure.core.talk.parts import Ask, BlockBegan, BlockEnded, Foreign, Piece, Result, Text
from perdure.core.talk.routes import Models, Upstream
from perdure.core.talk.tokens import estimate
from perdure.core.talk.turning import TurnRequest
from perdure.core.talk.wire import rest
from perdure.edge.session import AsyncSession
from perdure.services.caching import Caching
from perdure.services.calling import Calling
from perdure.services.remembering import Remembering
from tests.services.talkers import PRICES, Scripted, Stage, says, wants, words

VAULT = vault("local")


@asynccontextmanager
async def stage(
    path: str = ":memory:", *, cites: bool = False, provider: Scripted | None = None
) -> AsyncIterator[Stage]:
    """A stage with memory by words alone; with `cites` its provider speaks Anthropic's form."""
    services = embedded(path, memory=MemorySettings(embedder="none"))
    made = Stage(services, provider or Scripted())
    if cites:
        made.provider.form = "anthropic"
        upstreams = {"acme": Upstream(name="acme", kind="anthropic", base_url="http://localhost", retries=0)}
        models = Models(upstreams=upstreams, default="acme/small", cheap="acme/small")
        common = services.common
        common.calling = Calling(models, common.ambient, {"acme": made.provider}, prices=PRICES)
    try:
        yield made
    finally:
        await services.quiet()
        await made.db.close()


async def keep(there: Stage, *contents: str, space: Space = VAULT, **fields: Any) -> tuple[Memory, ...]:
    asked = [Keeping(content=content, **fields) for content in contents]
    return await there.services.memories.keep(space, asked)


async def ask(there: Stage, session: AsyncSession, text: str, **fields: Any) -> Ask:
    await there.talking.run(session.id, TurnRequest(content=text, **fields))
    await settled(there)
    return there.provider.asked[-1]


async def settled(there: Stage) -> None:
    """Wait until what was shown is weighed."""
    while there.talking._tasks:
        await asyncio.wait(there.talking._tasks)


def system(asked: Ask) -> str:
    return "\n".join(block.text for block in asked.system if isinstance(block, Text))


def last(asked: Ask) -> str:
    return words(asked.messages[-1])


def results(asked: Ask, at: int = -1) -> list[dict[str, Any]]:
    return [block.block for block in asked.messages[at].blocks if isinstance(block, Foreign)]


async def notes(there: Stage, session: AsyncSession, text: str = "where is gold dug?") -> list[str]:
    context: Context = await there.talking.context(session.id, TurnRequest(content=text))
    return [portion.why for portion in context.portions if portion.name == "memories left out"]


# ── what is shown, and where ──


async def test_what_was_found_goes_with_the_message_and_what_stands_before_the_history() -> None:
    async with stage() as there:
        await keep(there, "Gold is dug in the northern hills", "The harbour freezes in winter", importance=0.7)
        await keep(there, "Never dig below the water line", memory_type=MemoryType.CONSTRAINT, importance=0.9)
        session = await there.session(memory={})
        asked = await ask(there, session, "Where is gold dug?")
        assert system(asked) == (
            '<agent_memory>\n  <memory type="constraint" importance="0.90" age="today">\n'
            "    Never dig below the water line\n  </memory>\n</agent_memory>"
        )
        assert '<memory type="fact" importance="0.70" age="today">\n    Gold is dug in the northern hills\n' in last(
            asked
        )
        assert "Never dig" not in last(asked)


async def test_a_session_without_memory_is_shown_none() -> None:
    async with stage() as there:
        await keep(there, "Gold is dug in the northern hills")
        for config in ({}, {"memory": {"enabled": False}}, {"memory": None}):
            session = await there.session(**config)
            asked = await ask(there, session, "Where is gold dug?")
            assert (system(asked), last(asked)) == ("", "Where is gold dug?")
            assert MemoriesRecalled.kind not in await there.kinds(session)


async def test_the_prefix_stays_byte_for_byte_while_memories_come_and_days_go_by() -> None:
    async with stage() as there:
        rules = ["Never dig below the water line", "Never sell before noon"]
        await keep(there, *rules, memory_type=MemoryType.CONSTRAINT, importance=0.9)
        session = await there.session(memory={}, system_prompt="You dig.")
        for number in range(5):
            await ask(there, session, f"Where is gold dug, in place {number}?")
            await keep(there, f"Gold was seen in place {number + 1}")
            await keep(there, f"Rule {number}: always wash hands", memory_type=MemoryType.CONSTRAINT, importance=1.0)
        asks = there.provider.asked
        assert all(rule in system(asks[0]) for rule in rules)
        for before, after in pairwise(asks):
            assert msgspec.json.encode(before.system) == msgspec.json.encode(after.system)
            earlier = before.messages[:-1]
            assert [words(said) for said in earlier] == [words(said) for said in after.messages[: len(earlier)]]
        assert "Gold was seen in place 4" in last(asks[-1])
        assert (await there.kinds(session)).count(MemoriesRecalled.kind) == 5


async def test_the_same_message_is_shown_the_same_bytes_when_nothing_changed() -> None:
    async with stage() as there:
        await keep(there, *(f"Gold vein {number} lies {number} miles to the north" for number in range(30)))
        told = set()
        for _ in range(6):
            session = await there.session(memory={})
            told.add(last(await ask(there, session, "Which gold vein lies to the north?")))
        assert len(told) == 1


async def test_another_process_goes_on_with_the_same_prefix(tmp_path: Path) -> None:
    path, provider = str(tmp_path / "a.db"), Scripted()
    async with stage(path, provider=provider) as there:
        await keep(there, "Never dig below the water line", memory_type=MemoryType.CONSTRAINT)
        session = await there.session(memory={})
        await ask(there, session, "Where is gold dug?")
        await keep(there, "Always wash hands", memory_type=MemoryType.CONSTRAINT, importance=1.0)
    async with stage(path, provider=provider) as there:
        again = await there.db.session(session.id)
        await ask(there, again, "And silver?")
    first, second = provider.asked
    assert system(first) == system(second) != ""


async def test_a_branch_shares_the_prefix_of_its_parent() -> None:
    async with stage() as there:
        await keep(there, "Never dig below the water line", memory_type=MemoryType.CONSTRAINT)
        session = await there.session(memory={})
        first = await ask(there, session, "Where is gold dug?")
        await keep(there, "Always wash hands", memory_type=MemoryType.CONSTRAINT, importance=1.0)
        branch = await session.branch()
        second = await ask(there, branch, "And silver?")
        assert system(first) == system(second) != ""
        assert words(second.messages[0]) == "Where is gold dug?"


async def test_a_compaction_chooses_anew() -> None:
    async with stage() as there:
        await keep(there, "Never dig below the water line", memory_type=MemoryType.CONSTRAINT, importance=0.5)
        session = await there.session(memory={})
        for number in range(12):
            await ask(there, session, f"Question {number}?")
        await keep(there, "Always wash hands", memory_type=MemoryType.CONSTRAINT, importance=1.0)
        assert "wash hands" not in system(await ask(there, session, "And now?"))
        assert await there.services.desk.compacting.compact(session.id, window=20_000, force=True) is not None
        asked = await ask(there, session, "And then?")
        assert "wash hands" in system(asked)
        assert "water line" in system(asked)


async def test_a_turn_that_compacts_first_writes_down_what_stands_and_what_it_found() -> None:
    async with stage() as there:
        await keep(there, "Never dig below the water line", memory_type=MemoryType.CONSTRAINT)
        await keep(there, "Gold is dug in the northern hills")
        session = await there.session(memory={}, compaction={"threshold": 0.3, "keep_last": 1})
        while "compacted" not in await there.kinds(session):
            await ask(there, session, "Where is gold dug? " + "I wonder. " * 1_000)
        recalled = [event for event in await session.events() if isinstance(event.data, MemoriesRecalled)]
        compacted = next(event.version for event in await session.events() if event.kind == "compacted")
        first, *_, latest = recalled
        assert latest.version > compacted > first.version
        for event in (first, latest):
            assert isinstance(event.data, MemoriesRecalled)
            assert (event.data.chosen, len(event.data.standing), len(event.data.found)) == (True, 1, 1)
        assert (await there.services.memories.stats(VAULT)).queries_today == len(recalled)


@pytest.mark.parametrize("cites", [False, True])
async def test_all_fits_one_budget_and_the_counts(cites: bool) -> None:
    async with stage(cites=cites) as there:
        shelves = there.services.memories.shelves
        await shelves.begin(Space("clade", "desk"), owner="local")
        for space in (VAULT, Space("clade", "desk"), LETHE):
            facts = [f"{space.namespace} knows of gold mine {number}: {'it is deep ' * 30}" for number in range(12)]
            await keep(there, *facts, space=space)
        rules = [f"Never enter mine {number}" for number in range(9)]
        await keep(there, *rules, memory_type=MemoryType.CONSTRAINT)
        for budget, most in ((3_000, 15), (600, 15), (0, 0), (1_000_000, 15)):
            memory = {"clades": ["desk"], "lethe": True, "budget": budget}
            session = await there.session(memory=memory)
            asked = await ask(there, session, "Which gold mine is deep?")
            blocks = [*asked.system, *(block for said in asked.messages for block in said.blocks)]
            shown = [msgspec.json.encode(block.block).decode() for block in blocks if isinstance(block, Foreign)]
            shown += [block.text for block in blocks if isinstance(block, Text) and "<agent_memory>" in block.text]
            told = "".join(shown)
            assert sum(map(estimate, shown)) <= budget
            count = told.count('"search_result"') if cites else told.count("<memory ")
            assert count <= most
            if budget == 1_000_000:
                assert count == 15
                assert told.count("clade knows") + told.count("lethe knows") == (10 if cites else 5)
                assert told.count("Never enter") == (6 if cites else 3)


async def test_a_turn_looks_once_however_many_rounds_it_has() -> None:
    async with stage() as there:
        await keep(there, "Gold is dug in the northern hills")
        session = await there.session(memory={})
        there.provider.then(wants(("c", "look", {})))
        outcome = await there.talking.run(session.id, TurnRequest(content="Where is gold dug?"))
        assert outcome.status == "tools"
        await there.talking.run(session.id, TurnRequest(results=(Result(call="c", content=(Text(text="none"),)),)))
        await settled(there)
        first, second = there.provider.asked
        shown = [block.text for block in first.messages[-1].blocks if isinstance(block, Text)][-1]
        assert shown in last(second)
        stats = await there.services.memories.stats(VAULT)
        assert stats.queries_today == 1
        assert (await there.kinds(session)).count(MemoriesRecalled.kind) == 1


async def test_looking_at_the_context_counts_nothing_and_writes_nothing() -> None:
    async with stage() as there:
        await keep(there, "Gold is dug in the northern hills")
        await there.services.memories.plan(VAULT, "free")
        session = await there.session(memory={})
        for _ in range(60):
            context = await there.talking.context(session.id, TurnRequest(content="Where is gold dug?"))
        assert "turn memories" in [portion.name for portion in context.portions]
        assert (await there.services.memories.stats(VAULT)).queries_today == 0
        assert await there.kinds(session) == []


# ── what must not be shown ──


@pytest.mark.parametrize("cites", [False, True])
@pytest.mark.parametrize("how", ["forgotten", "quarantined", "withdrawn"])
async def test_what_may_not_be_shown_any_more_is_gone_from_the_next_request(how: str, cites: bool) -> None:
    async with stage(cites=cites) as there:
        rule, fact = (
            *await keep(there, "Never dig below the water line", memory_type=MemoryType.CONSTRAINT),
            *await keep(there, "Gold is dug in the northern hills"),
        )
        session = await there.session(memory={})
        there.provider.then(wants(("c", "look", {})))
        await there.talking.run(session.id, TurnRequest(content="Where is gold dug?"))
        before = msgspec.json.encode(there.provider.asked[-1])
        assert b"water line" in before
        assert b"northern hills" in before
        memories = there.services.memories
        if how == "forgotten":
            await memories.forget(VAULT, [rule.id, fact.id])
        else:
            status = Status.QUARANTINED if how == "quarantined" else Status.WITHDRAWN
            await memories.move(VAULT, [rule.id, fact.id], status)
        await there.talking.run(session.id, TurnRequest(results=(Result(call="c"),)))
        await there.talking.run(session.id, TurnRequest(content="Where is gold dug?"))
        await settled(there)
        for asked in there.provider.asked[1:]:
            assert b"water line" not in msgspec.json.encode(asked)
            assert b"northern hills" not in msgspec.json.encode(asked)


async def test_nobody_is_shown_what_is_anothers() -> None:
    async with stage() as there:
        shelves = there.services.memories.shelves
        for space in (vault("bob"), vault("bob:dog"), Space("clade", "desk")):
            await shelves.begin(space, owner="bob")
            await keep(there, f"Gold is dug where {space.namespace} says", space=space)
        session = await there.db.create("trip", config={"memory": {"agent": "bob", "clades": ["desk", "none"]}})
        asked = await ask(there, session, "Where is gold dug?")
        assert (system(asked), last(asked)) == ("", "Where is gold dug?")
        found = await notes(there, session)
        assert found == [f"{name}: nothing is kept there" for name in ("vault/bob", "clade/desk", "clade/none")]
        for agent in ("bob:dog", "dog", "local"):
            other = await there.session(memory={"agent": agent})
            assert "Gold is dug where" not in last(await ask(there, other, "Where is gold dug?"))


async def test_whoever_a_clade_lets_in_is_shown_it_until_they_are_not() -> None:
    async with stage() as there:
        clade = Space("clade", "desk")
        await there.services.memories.shelves.begin(clade, owner="bob", isolation=Isolation(users=("local",)))
        await keep(there, "Gold is dug in the northern hills", space=clade)
        session = await there.session(memory={"clades": ["desk"]})
        assert "northern hills" in last(await ask(there, session, "Where is gold dug?"))


async def test_what_is_flagged_or_little_trusted_does_not_stand_for_a_session() -> None:
    async with stage() as there:
        document = Source(kind="document")
        await keep(there, "Always dig at night", memory_type=MemoryType.CONSTRAINT, source=document)
        session = await there.session(memory={})
        asked = await ask(there, session, "When do we dig?")
        assert system(asked) == ""
        assert "Always dig at night" in last(asked)


# ── where it can be cited ──


def citing(text: str, source: str, cited: str) -> list[Piece]:
    """An answer that cites."""
    location = {
        "type": "search_result_location",
        "source": source,
        "title": "t",
        "cited_text": cited,
        "search_result_index": 0,
        "start_block_index": 0,
        "end_block_index": 1,
    }
    pieces = says(text)
    [behind] = rest("anthropic", {"citations": [location]})
    return [*pieces[:-1], BlockBegan(index=1, block=behind), BlockEnded(index=1), pieces[-1]]


async def test_memories_are_search_results_where_models_can_cite_them() -> None:
    async with stage(cites=True) as there:
        [rule] = await keep(there, "Never dig below the water line", memory_type=MemoryType.CONSTRAINT)
        [fact] = await keep(there, "Gold is dug in the <northern> hills", source=Source(session="s", version=3))
        session = await there.session(memory={}, system_prompt="You dig.")
        there.provider.then(citing("In the north.", f"perdure://memory/vault/fact/{fact.id}", fact.content))
        asked = await ask(there, session, "Where is gold dug?")
        assert system(asked) == "You dig."
        first, second = results(asked, 0)
        assert first["source"] == f"perdure://memory/vault/constraint/{rule.id}"
        assert second == {
            "type": "search_result",
            "source": f"perdure://memory/vault/fact/{fact.id}",
            "title": "[FACT] Gold is dug in the &lt;northern&gt; hills",
            "content": [{"type": "text", "text": "Gold is dug in the &lt;northern&gt; hills"}],
            "citations": {"enabled": True},
        }
        noted = [event.data for event in await session.events() if isinstance(event.data, MemoriesCited)]
        assert [(item.id, item.space, item.start, item.end) for item in noted[0].cited] == [
            (fact.id, "vault/local", 0, 13)
        ]
        memory = await counted(there, fact.id)
        assert (memory.cited, memory.unused) == (1, 0)
        assert (await counted(there, rule.id)).unused == 0
        following = await ask(there, session, "And silver?")
        assert b"cited_text" not in msgspec.json.encode(following)
        assert results(following, 0)[0] == first
        assert words(following.messages[0]) == "Where is gold dug?"


async def test_where_it_may_not_or_cannot_be_cited_it_is_told_in_words() -> None:
    async with stage(cites=True) as there:
        await keep(there, "Gold is dug in the northern hills")
        document = {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "gold"}}
        said = [{"type": "text", "text": "Where is gold dug?"}]
        for memory, content, extra in (
            ({"cite": "never"}, said, {}),
            ({}, [document, *said], {}),
            ({}, said, {"anthropic": {"output_config": {"format": {}}}}),
        ):
            session = await there.session(memory=memory)
            await there.talking.run(session.id, TurnRequest(content=content, extra=extra))
            assert "<agent_memory>" in last(there.provider.asked[-1])


async def test_an_answer_is_traced_to_the_message_and_its_checkpoint() -> None:
    async with stage(cites=True) as there:
        learned = await there.session()
        await there.talking.run(learned.id, TurnRequest(content="Gold is dug in the northern hills"))
        version = next(event.version for event in await learned.events() if event.kind == "turn_started")
        checkpoint = await learned.checkpoint("after")
        await learned.checkpoint("later")
        source = Source(kind="user", session=learned.id, version=version)
        [fact] = await keep(there, "Gold is dug in the northern hills", source=source)
        session = await there.session(memory={})
        there.provider.then(citing("In the north.", f"perdure://memory/vault/fact/{fact.id}", fact.content))
        await ask(there, session, "Where is gold dug?")
        found = await there.services.grounding.of(session.id, 1)
        [ground] = found.grounds
        assert (ground.support.how, ground.support.memory) == ("cited", fact.id)
        assert (ground.source.session, ground.source.version, ground.checkpoint) == (
            learned.id,
            version,
            checkpoint.id,
        )
        assert ground.address == f"perdure://memory/vault/fact/{fact.id}"
        await there.services.memories.forget(VAULT, [fact.id])
        assert (await there.services.grounding.of(session.id, 1)).grounds == ()


# ── what became of it ──


async def counted(there: Stage, id: str) -> Memory:
    await there.services.memories.close()
    return await there.services.memories.get(VAULT, id)


async def test_what_an_answer_repeats_was_of_use_and_the_rest_was_not() -> None:
    async with stage() as there:
        [used] = await keep(there, "Gold is dug in the northern hills near Velm")
        [unused] = await keep(there, "Gold was once traded for salt")
        [rule] = await keep(there, "Never speak of gold at dinner", memory_type=MemoryType.CONSTRAINT)
        session = await there.session(memory={})
        there.provider.then(says("People say that gold is dug in the northern hills near Velm. Good luck!"))
        await ask(there, session, "Where is gold dug?")
        assert ((await counted(there, used.id)).cited, (await counted(there, used.id)).unused) == (1, 0)
        assert ((await counted(there, unused.id)).cited, (await counted(there, unused.id)).unused) == (0, 1)
        assert ((await counted(there, rule.id)).cited, (await counted(there, rule.id)).unused) == (0, 0)
        assert (await there.services.memories.stats(VAULT)).missing == 0
        [ground] = (await there.services.grounding.of(session.id, 1)).grounds
        assert (ground.support.how, ground.support.memory) == ("words", used.id)


async def test_an_answer_that_nothing_supports_says_that_something_is_missing() -> None:
    async with stage() as there:
        await keep(there, "Gold is dug in the northern hills")
        session = await there.session(memory={})
        for text, missing in (("I do not know.", 0), ("It was found in 1887 by Ada Brandt.", 1)):
            there.provider.then(says(text))
            await ask(there, session, "Where is gold dug?")
            assert (await there.services.memories.stats(VAULT)).missing == missing


async def test_what_is_alike_is_support_where_there_are_vectors(monkeypatch: pytest.MonkeyPatch) -> None:
    class Axes:
        name, dimensions = "axes", 2

        def embed(self, texts: Sequence[str]) -> list[list[float]]:
            return [[1.0, 0.0] if "gold" in text.lower() or "ore" in text.lower() else [0.0, 1.0] for text in texts]

    async with stage() as there:
        await keep(there, "Gold is dug in the northern hills", "Salt comes from the sea")
        session = await there.session(memory={})
        there.provider.then(says("The ore is up there."))
        remembering: Remembering = there.services.remembering
        await ask(there, session, "Where is gold dug, and salt?")
        monkeypatch.setattr(remembering.memories.shelves, "embedder", Axes)
        shown = await remembering.pairs(
            await session.state(), [item for event in await session.events() for item in _found(event.data)]
        )
        pairs = [(told, memory.content) for told, memory in shown]
        found = await remembering.weighed(pairs, "The ore is up there.")
        assert [(support.how, support.score) for support in found.supports] == [("alike", 1.0)]
        assert len(found.unused) == 1


def _found(data: object) -> tuple[Any, ...]:
    return data.found if isinstance(data, MemoriesRecalled) else ()


# ── what goes wrong ──


async def test_a_quota_that_is_reached_stops_no_turn_and_the_context_says_why() -> None:
    async with stage() as there:
        await keep(there, "Gold is dug in the northern hills")
        await there.services.memories.plan(VAULT, "free")
        session = await there.session(memory={})
        for _ in range(50):
            assert "northern hills" in last(await ask(there, session, "Where is gold dug?"))
        shown = await there.services.remembering.for_turn(
            await session.state(), (await session.state()).config.memory, "gold", standing=()
        )
        assert "plan free" in " ".join(shown.notes)
        assert "plan free" in " ".join(await notes(there, session))  # a look shows what a turn would
        assert "northern hills" not in last(await ask(there, session, "Where is gold dug?"))


async def test_a_space_that_cannot_be_read_stops_no_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    async with stage() as there:
        await keep(there, "Gold is dug in the northern hills")
        session = await there.session(memory={"lethe": True})
        shelves = there.services.memories.shelves
        log, head = shelves.session_of(VAULT), there.services.sessions.log.head

        async def broken(asked: Any, *args: Any, **fields: Any) -> Any:
            if asked == log:
                raise StoreClosed("the disk is gone; mend it")
            return await head(asked, *args, **fields)

        monkeypatch.setattr(there.services.sessions.log, "head", broken)
        asked = await ask(there, session, "Where is gold dug?")
        assert last(asked) == "Where is gold dug?"
        first, second = await notes(there, session)
        assert first.startswith("vault/local cannot be read right now")
        assert second == "lethe: nothing is kept there"


async def test_an_embedder_that_fails_leaves_the_words(monkeypatch: pytest.MonkeyPatch) -> None:
    class Down:
        name, dimensions = "down", 2

        def embed(self, texts: Sequence[str]) -> list[list[float]]:
            raise ProviderDown("nobody is there; try later")

    async with stage() as there:
        [fact] = await keep(there, "Gold is dug in the northern hills")
        remembering: Remembering = there.services.remembering
        shown = await remembering.for_turn(*await _asking(there), "Where is gold dug?")
        monkeypatch.setattr(remembering.memories.shelves, "embedder", Down)
        found = await remembering.weighed(shown.found, "Gold is dug in the northern hills.")
        assert found.used == (fact.id,)


async def _asking(there: Stage) -> tuple[Any, Any]:
    state = await (await there.session(memory={})).state()
    return state, state.config.memory


# ── caches ──


@pytest.mark.parametrize("cache", ["exact", "semantic"])
@pytest.mark.parametrize("how", ["forgotten", "quarantined"])
async def test_no_cache_gives_an_answer_that_was_made_with_what_is_forgotten(how: str, cache: Any) -> None:
    async with stage() as there:
        common = there.services.common
        common.caching = Caching(common.ambient.now, embed=lambda _: {1: 1.0}, threshold=0.1)  # all questions are alike
        [fact] = await keep(there, "Gold is dug in the hills to the north of the river near the old mill")
        question = "Where is gold dug?"
        for cached in ("", "exact"):
            session = await there.session(memory={})
            there.provider.script = [says("To the north.")]
            outcome = await there.talking.run(session.id, TurnRequest(content=question, cache=cache))
            assert (outcome.text, outcome.cached) == ("To the north.", cached)
        if how == "forgotten":
            await there.services.memories.forget(VAULT, [fact.id])
        else:
            await there.services.memories.move(VAULT, [fact.id], Status.QUARANTINED)
        await keep(there, "Gold is dug in the hills to the south of the river near the old mill")
        there.provider.script.clear()
        session = await there.session(memory={})
        outcome = await there.talking.run(session.id, TurnRequest(content=question, cache=cache))
        assert (outcome.text, outcome.cached) == ("ok", "")
        assert "to the south" in last(there.provider.asked[-1])


async def test_recalling_by_itself_spans_spaces_within_the_budget() -> None:
    async with stage() as there:
        await keep(there, "Gold is dug in the northern hills")
        await keep(there, "Gold melts at 1064 degrees", space=LETHE)
        found = await there.services.remembering.recall("gold", agent="local", lethe=True)
        assert [item.space for item in found] == ["vault/local", "lethe"]
        assert await there.services.remembering.recall("gold", agent="local", lethe=True, budget=10) == ()
        assert await there.services.remembering.recall(" \ud800 ", agent="local") is not None
