"""Memory as the library's callers hold it. What asks for `db` alone holds over a connection, too."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

import perdure
from perdure.core.errors import BadExport, Invalid, NotFound, QuotaReached
from perdure.memory import Imported, Keeping, MemorySettings, MemoryType, Source, Status

NIGHT = "Prefers a window seat on night trains"
HOME = "Lives in Lisbon near the river"
RUMOUR: Any = "rumour"


@pytest.fixture
def db() -> Iterator[perdure.Perdure]:
    with perdure.open(":memory:", memory="none") as opened:
        yield opened


def contents(found: Any) -> list[str]:
    return [getattr(one, "memory", one).content for one in found]


def test_what_is_kept_is_found_with_what_was_said_about_it(db: perdure.Perdure) -> None:
    ana = db.memory("ana")
    kept = ana.add(
        NIGHT,
        memory_type="preference",
        importance=0.9,
        metadata={"trains": ["EC", "NJ"]},
        author="Ana",
        source={"kind": "user", "session": "s-1", "version": 7},
        subjects=["ana"],
        valid_from=datetime(2026, 1, 1, tzinfo=UTC),
    )
    ana.add(HOME)
    assert (kept.type, kept.importance, kept.trust) == (MemoryType.PREFERENCE, 0.9, "high")
    assert kept.source == Source(kind="user", session="s-1", version=7)
    assert kept.valid_from == 1_767_225_600_000_000
    assert ana.get(kept.id) == kept
    best = ana.search("a seat by the window", top_k=1, count=False)[0]
    assert (best.memory.content, best.space, best.age) == (NIGHT, "vault/ana", "now")
    assert 0 < best.importance <= 1


def test_searches_are_narrowed_by_type_metadata_importance_and_session(db: perdure.Perdure) -> None:
    ana = db.memory("ana")
    ana.add_many(
        [
            {"content": "pool one pays", "metadata": {"tokens": ["ETH"], "chains": [1]}, "importance": 1.0},
            {"content": "pool two pays", "memory_type": "constraint", "source": {"session": "s-2"}, "importance": 0.0},
            Keeping(content="pool three pays", memory_type=MemoryType.EPISODE, importance=0.5),
            "pool four pays",
        ]
    )
    assert contents(ana.search("pool pays", types="constraint")) == ["pool two pays"]
    assert set(contents(ana.search("pool pays", types=["constraint", MemoryType.EPISODE]))) == {
        "pool two pays",
        "pool three pays",
    }
    assert contents(ana.search("pool pays", metadata={"tokens": "eth", "chains": [1, 10]})) == ["pool one pays"]
    assert contents(ana.search("pool pays", sessions=["s-2"])) == ["pool two pays"]
    assert contents(ana.search("pool pays", min_importance=0.65)) == ["pool one pays"]
    assert len(ana.search("pool pays", top_k=3)) == 3


def test_spaces_do_not_see_each_other(db: perdure.Perdure) -> None:
    spaces = [db.memory("ana"), db.memory("ben"), db.memory(clade="desk"), db.memory(lethe=True)]
    for number, space in enumerate(spaces):
        space.add(f"secret number {number}")
    assert [contents(space.search("secret number")) for space in spaces] == [[f"secret number {n}"] for n in range(4)]
    assert [space.space for space in spaces] == ["vault/ana", "vault/ben", "clade/desk", "lethe"]
    with pytest.raises(NotFound, match="no memory"):
        spaces[1].get(next(spaces[0].list()).id)


def test_other_words_take_the_place_of_a_memory_and_what_it_was_stays_known(db: perdure.Perdure) -> None:
    ana = db.memory("ana")
    old = ana.add(HOME, valid_from=10**15)
    new = ana.update(old.id, content="Lives in Porto", reason="moved")
    assert (new.supersedes, ana.get(old.id).status) == ((old.id,), Status.SUPERSEDED)
    assert contents(ana.search("lives where")) == ["Lives in Porto"]
    assert contents(ana.search("lives where", at=10**15 + 1)) == [HOME]
    assert [memory.id for memory in ana.history(old.id)] == [old.id, new.id]
    assert ana.history(new.id) == ana.history(old.id)
    louder = ana.update(new.id, importance=1.0, metadata={"since": "May"}, memory_type="episode")
    assert (louder.id, louder.importance, louder.metadata, louder.type) == (new.id, 1.0, {"since": "May"}, "episode")


def test_what_is_put_away_is_found_only_when_asked_for(db: perdure.Perdure) -> None:
    ana = db.memory("ana")
    one, two = ana.add_many(["trains run at night", "trains run by day"])
    assert (ana.archive(one.id), ana.archive(one.id), ana.quarantine(two.id, reason="odd")) == (1, 0, 1)
    assert ana.search("trains") == ()
    assert contents(ana.search("trains", statuses="archived")) == [one.content]
    assert contents(ana.list(statuses=["archived", Status.QUARANTINED])) == [one.content, two.content]
    assert ana.restore(one.id, two.id) == 2
    assert contents(ana.list()) == [one.content, two.content]
    assert ana.archive() == 0


def test_what_is_forgotten_is_gone_with_what_it_was(db: perdure.Perdure) -> None:
    ana = db.memory("ana")
    old = ana.add(HOME)
    new = ana.update(old.id, content="Lives in Porto")
    assert ana.forget(old.id, new.id, "no-such") == 2
    assert (list(ana.list(statuses=list(Status))), ana.search("lives")) == ([], ())
    with pytest.raises(NotFound):
        ana.get(new.id)
    assert ana.forget(old.id) == 0


def test_more_than_a_page_is_listed_and_more_than_a_batch_is_kept(db: perdure.Perdure) -> None:
    ana = db.memory("ana")
    kept = ana.add_many([f"line {number}" for number in range(1_203)], key="lines")
    assert contents(kept) == [f"line {number}" for number in range(1_203)]
    assert contents(ana.list()) == contents(kept)
    assert ana.add_many([f"line {number}" for number in range(1_203)], key="lines") == kept
    assert ana.stats().counts == {"live": 1_203}


@pytest.mark.parametrize("wrong", ["", "x" * 32_769, {"content": "x", "memory_type": "facts"}, 7])
def test_something_that_is_no_memory_is_named_by_its_place_and_nothing_is_kept(db: perdure.Perdure, wrong: Any) -> None:
    ana = db.memory("ana")
    many: list[Any] = [f"line {number}" for number in range(1_203)]
    many[1_100] = wrong
    with pytest.raises(Invalid, match=r"^memories\[1100\]: ") as error:
        ana.add_many(many)
    assert error.value.fields["index"] == 1_100
    assert list(ana.list()) == []


def test_when_a_later_thousand_is_refused_the_error_says_how_many_were_kept(db: perdure.Perdure) -> None:
    ana = db.memory("ana")
    many: list[Any] = [f"line {number}" for number in range(1_203)]
    many[1_100] = {"content": "line", "supersedes": ["no-such"]}
    with pytest.raises(NotFound, match="; the first 1,000 of 1,203 were kept") as error:
        ana.add_many(many)
    assert (error.value.fields["kept"], ana.stats().counts) == (1_000, {"live": 1_000})
    with pytest.raises(NotFound) as alone:
        ana.add_many([{"content": "line", "supersedes": ["no-such"]}])
    assert "kept" not in alone.value.fields


def test_the_same_key_keeps_once(db: perdure.Perdure) -> None:
    ana = db.memory("ana")
    first = ana.add(NIGHT, key="k-1")
    assert ana.add(NIGHT, key="k-1").id == first.id
    assert len(list(ana.list())) == 1


def test_plans_limit_what_is_kept_and_asked(db: perdure.Perdure) -> None:
    ana = db.memory("ana")
    assert ana.plan().name == "unlimited"
    assert ana.plan("free").memories == 100
    ana.add_many([f"line {number}" for number in range(100)])
    with pytest.raises(QuotaReached, match="100 of the 100") as full:
        ana.add("one more")
    assert full.value.fields["quota"] == "memories"
    for _ in range(50):
        ana.search("line", top_k=1, count=False)
    with pytest.raises(QuotaReached) as asked:
        ana.search("line")
    assert asked.value.fields["quota"] == "queries"
    assert (ana.stats().plan, ana.stats().queries_today) == ("free", 50)
    with pytest.raises(Invalid, match="there is no plan"):
        ana.plan("golden")


def test_an_export_is_imported_elsewhere_with_its_times_and_links(db: perdure.Perdure) -> None:
    ana, ben = db.memory("ana"), db.memory("ben")
    old = ana.add(HOME, importance=0.7, metadata={"city": "Lisbon"}, source={"kind": "user", "session": "s-1"})
    ana.update(old.id, content="Lives in Porto")
    away, odd = ana.add_many(["trains run at night", "obey me"])
    ana.archive(away.id)
    ana.quarantine(odd.id)
    lines = ana.export()
    assert [json.loads(line)["content"] for line in lines] == contents(ana.list(statuses=list(Status)))
    assert ben.import_(lines) == Imported(kept=3, there=0, left_out=1)
    assert contents(ben.list()) == ["Lives in Porto"]
    assert contents(ben.list(statuses="archived")) == ["trains run at night"]
    came = next(ben.list(statuses="superseded"))
    assert (came.importance, came.metadata, came.source.session) == (0.7, {"city": "Lisbon"}, "s-1")
    assert (came.source.kind, came.trust) == ("import", "low")
    assert came.valid_from == ana.get(old.id).recorded_at
    assert contents(ben.history(came.id)) == [HOME, "Lives in Porto"]
    assert ben.import_(lines) == Imported(kept=0, there=3, left_out=1)
    assert ana.import_(lines) == Imported(kept=0, there=3, left_out=1)


def test_a_file_that_is_trusted_says_who_said_it(db: perdure.Perdure) -> None:
    ana, ben = db.memory("ana"), db.memory("ben")
    ana.add(NIGHT, source={"kind": "user"})
    ben.import_(ana.export(), trusted=True)
    assert [(memory.source.kind, memory.trust) for memory in ben.list()] == [("user", "high")]


def test_lines_of_text_and_of_objects_are_imported(db: perdure.Perdure, tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_text(
        'Trains run at night\n\n{"content": "Never pay twice", "type": "constraint", "team": "desk"}\n'
        '{"content": "Ana said so", "memory_type": "episode", "author": "Ana", "metadata": {"n": 1}}\n'
        "  Trains run at night\n"
    )
    seen = list[tuple[int, int]]()
    ana = db.memory("ana")
    assert ana.import_(file, progress=lambda done, of: seen.append((done, of))) == Imported(kept=3, there=1)
    assert seen[-1] == (4, 4)
    assert [(memory.content, memory.type, memory.author, memory.metadata) for memory in ana.list()] == [
        ("Trains run at night", "fact", "", {}),
        ("Never pay twice", "constraint", "", {"team": "desk"}),
        ("Ana said so", "episode", "Ana", {"n": 1}),
    ]


@pytest.mark.parametrize(
    "line",
    [
        "{broken",
        '{"no": "content"}',
        '{"content": " "}',
        '{"content": "x", "type": "rumour"}',
        '{"content": "x", "importance": 2}',
        '{"content": "x", "status": "odd"}',
        b"\xff\xfe",
        b'{"content": "\xff"}',
        "half \ud800",
        7,
    ],
)
def test_a_line_that_is_no_memory_is_named_and_nothing_is_kept(db: perdure.Perdure, line: Any) -> None:
    ana = db.memory("ana")
    with pytest.raises(BadExport, match="line 2"):
        ana.import_(["a good one", line])
    assert list(ana.list()) == []


def test_an_export_goes_into_a_file_that_is_there_whole(db: perdure.Perdure, tmp_path: Path) -> None:
    ana, told = db.memory("ana"), list[tuple[int, int]]()
    ana.add_many([NIGHT, HOME])
    target = tmp_path / "ana.jsonl"
    assert ana.export(target, progress=lambda done, of: told.append((done, of))) == []
    assert [json.loads(line)["content"] for line in target.read_bytes().splitlines()] == [NIGHT, HOME]
    assert told[-1] == (2, 2)


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda ana: ana.add(""), "content"),
        (lambda ana: ana.add(b"bytes"), "content"),
        (lambda ana: ana.add("x", memory_type="rumour"), "rumour"),
        (lambda ana: ana.add("x", importance=1.5), "importance"),
        (lambda ana: ana.add("x", importance="much"), "importance"),
        (lambda ana: ana.add("x", metadata=[1]), "metadata"),
        (lambda ana: ana.add("x", subjects="ana"), "subjects are a list"),
        (lambda ana: ana.add("x", valid_from=2 * 10**15, valid_to=10**15), "valid_to"),
        (lambda ana: ana.add("x", source={"kind": "rumour"}), "kind"),
        (lambda ana: ana.add_many("abc"), "list of texts or documents"),
        (lambda ana: ana.add_many([{"content": "x", "colour": "red"}]), "colour"),
        (lambda ana: ana.add_many([7]), "a memory to be kept"),
        (lambda ana: ana.search(""), "query"),
        (lambda ana: ana.search("x", top_k=0), "top_k"),
        (lambda ana: ana.search("x", types=["rumour"]), "rumour"),
        (lambda ana: ana.search("x", statuses=7), "list of names"),
        (lambda ana: ana.update("x"), "nothing is to be changed"),
        (lambda ana: ana.get(7), "id"),
        (lambda ana: list(ana.list(statuses="gone")), "live"),
        (lambda ana: ana.import_(7), "path or from lines"),
        (lambda ana: ana.propose("x", to="nowhere"), "lethe, clade/NAME"),
        (lambda ana: ana.add("x", memory_type="facts"), "'facts' is not one of fact, preference, .*memory_type"),
        (lambda ana: ana.add("x", trust="huge"), "'huge' is not one of low, medium, high"),
        (lambda ana: ana.add("x", source={"kind": "rumour"}), "'rumour' is not one of user, agent, tool"),
        (lambda ana: ana.add("x", source=Source(kind=RUMOUR)), "'rumour' is not one of user, agent, tool"),
        (lambda ana: ana.add_many([Keeping(content="x", memory_type=RUMOUR)]), "'rumour' is not one of fact"),
        (lambda ana: ana.update("x", memory_type="facts"), "'facts' is not one of fact"),
        (lambda ana: ana.search("x", types=["fact", "facts"]), r"'facts' is not one of fact, .*type_filter\[.*\]"),
        (lambda ana: ana.search("x", statuses="gone"), "'gone' is not one of live, superseded"),
        (lambda ana: list(ana.list(types="facts")), "'facts' is not one of fact, preference"),
        (lambda ana: ana.forget(["x"]), r"not list; .*\*ids"),
        (lambda ana: ana.forget(ana.add(NIGHT)), r"not Memory; give its \.id"),
        (lambda ana: (ana.add(NIGHT), ana.get(ana.search(NIGHT)[0])), r"not Scored; give its \.memory\.id"),
    ],
)
def test_what_makes_no_request_is_told(db: perdure.Perdure, call: Any, told: str) -> None:
    with pytest.raises(Invalid, match=told):
        call(db.memory("ana"))


def test_one_space_is_named_at_a_time(db: perdure.Perdure) -> None:
    with pytest.raises(Invalid, match="name one space"):
        db.memory("ana", clade="desk")
    with pytest.raises(Invalid, match="name one space"):
        db.memory(clade="desk", lethe=True)
    with pytest.raises(Invalid, match="1 to 128"):
        db.memory("a/b")


# ── consolidation ──


def test_a_consolidation_is_tried_run_looked_at_and_undone(db: perdure.Perdure) -> None:
    ana, seen = db.memory("ana"), list[tuple[int, int]]()
    ana.add_many(["The night train to Madrid leaves at ten", "the night train to Madrid leaves at ten."])
    ana.add("Ana is allergic to nuts", memory_type="constraint")
    before = list(ana.list(statuses=list(Status)))
    tried = ana.consolidate(dry=True)
    assert sum(tried.found.values()) > 0
    assert (ana.runs(), list(ana.list(statuses=list(Status)))) == ((), before)
    run = ana.consolidate(progress=lambda done, of: seen.append((done, of)))
    assert (run.phase, run.found) == ("ended", tried.found)
    assert len(list(ana.list())) == 2
    assert seen
    assert ana.runs() == (run,)
    assert "superseded" in [step.did for step in ana.steps(run.id)]
    for (step,) in (tried.would, [step for step in ana.steps(run.id) if step.decides]):
        assert (step.did, step.reason) == ("superseded", "another one says the same")
        assert (step.content, step.by_content) == (before[0].content, before[1].content)
        assert (step.id, step.by) == (before[0].id, before[1].id)
    assert run.would == ()
    assert ana.undo(run.id) == len({step.id for step in ana.steps(run.id)})
    after = {memory.id: (memory.status, memory.importance, memory.valid_to) for memory in ana.list(statuses="live")}
    assert after == {memory.id: (memory.status, memory.importance, memory.valid_to) for memory in before}
    assert [run.phase for run in ana.runs()] == ["undone"]


def test_a_consolidation_that_cannot_be_is_told(db: perdure.Perdure) -> None:
    ana = db.memory("ana")
    with pytest.raises(NotFound):
        ana.consolidate()
    ana.plan("free")
    ana.add(NIGHT)
    with pytest.raises(QuotaReached) as error:
        ana.consolidate()
    assert error.value.fields["quota"] == "consolidation"
    assert "perdure sweep" in error.value.message
    assert ana.consolidate(dry=True).phase == "dry"
    with pytest.raises(NotFound):
        ana.undo("no-such-run")
    with pytest.raises(NotFound):
        ana.steps("no-such-run")


# ── learning, and telling others ──


def test_what_a_session_taught_is_kept_once(db: perdure.Perdure) -> None:
    session, ana = db.create("Trip"), db.memory("ana")
    session.send("I prefer window seats. Never book trains with less than 20 minutes to change.")
    tried = ana.extract(session, dry=True)
    assert (tried.dry, list(ana.list())) == (True, [])
    learned = ana.extract(session.id)
    assert contents(learned.kept) == contents(tried.kept) == contents(ana.list())
    assert {memory.type.value for memory in learned.kept} == {"preference", "constraint"}
    assert {memory.source.session for memory in learned.kept} == {session.id}
    assert ana.extract(session).kept == ()
    assert len(list(ana.list(session=session.id))) == len(learned.kept)


def test_a_memory_is_proposed_to_others_and_reviewed(db: perdure.Perdure) -> None:
    ana, lethe = db.memory("ana"), db.memory(lethe=True)
    good, bad = ana.add_many(["Trains to Madrid are often late in August", "Tickets are sold at platform 3"])
    first = ana.propose(good.id, to=lethe, evidence=["s-1", "s-2"], ttl=86_400)
    second = ana.propose(bad.id, to="lethe")
    assert set(first.gates) == {"new", "evidenced", "general", "expiring"}
    assert [proposal.id for proposal in lethe.proposals()] == [first.id, second.id]
    accepted = lethe.review(first.id, True, reason="seen often")
    assert (accepted.accepted, lethe.review(second.id, False).accepted) == (True, False)
    assert (lethe.proposals(), len(lethe.proposals(reviewed=True))) == ((), 2)
    told = lethe.get(accepted.became)
    assert (told.content, told.source.kind, told.valid_to) == (good.content, "promotion", first.expires)
    assert contents(lethe.list()) == [good.content]
    with pytest.raises(NotFound):
        lethe.review("no-such-proposal", True)
    with pytest.raises(Invalid, match=r"another space|to lethe"):
        ana.propose(good.id, to="vault/ana")


def test_what_waits_is_proposed_anew_with_what_the_gates_asked_for(db: perdure.Perdure) -> None:
    ana, lethe = db.memory("ana"), db.memory(lethe=True)
    kept = ana.add("Trains to Madrid are often late in August")
    first = ana.propose(kept.id, to=lethe)
    assert "time to live" in first.gates["expiring"]
    again = ana.propose(kept.id, to=lethe, evidence=["seen twice"], ttl=86_400)
    assert (again.id, again.gates) == (first.id, dict.fromkeys(first.gates, "pass"))
    assert again.expires is not None
    assert lethe.proposals() == (again,)
    assert lethe.get(lethe.review(first.id, True).became).valid_to == again.expires


# ── where the store is ──


def test_without_a_name_it_is_the_vault_of_whoever_has_the_store_open() -> None:
    with perdure.open(":memory:", actor="ana", memory="none") as db:
        db.memory().add(NIGHT)
        assert contents(db.memory("ana").list()) == [NIGHT]
        assert repr(db.memory()) == "MemorySpace(vault/ana)"


def test_uses_are_written_down_when_the_store_is_closed(tmp_path: Path) -> None:
    path = tmp_path / "agent.db"
    with perdure.open(path, memory="none") as db:
        kept = db.memory("ana").add(NIGHT)
        for _ in range(3):
            db.memory("ana").search("window seat")
    db.close()
    with perdure.open(path, memory="none") as db:
        ana = db.memory("ana")
        assert (ana.get(kept.id).accesses, ana.stats().queries_today) == (3, 3)


def test_a_store_that_is_only_read_is_searched_and_closed(tmp_path: Path) -> None:
    path = tmp_path / "agent.db"
    with perdure.open(path, memory="none") as db:
        db.memory("ana").add(NIGHT)
    with perdure.open(path, memory="none", read_only=True) as db:
        ana = db.memory("ana")
        assert [contents(ana.search("window seat")) for _ in range(300)] == [[NIGHT]] * 300


def test_an_export_does_not_overwrite_the_store(tmp_path: Path) -> None:
    with perdure.open(tmp_path / "agent.db", memory="none") as db:
        db.memory("ana").add(NIGHT)
        with pytest.raises(Invalid):
            db.memory("ana").export(tmp_path / "agent.db")


@pytest.mark.parametrize("given", [MemorySettings(embedder="none"), {"embedder": "none"}, "none"])
def test_how_a_store_remembers_is_said_in_three_ways(given: Any) -> None:
    with perdure.open(":memory:", memory=given) as db:
        db.memory("ana").add(NIGHT)
        assert db.memory("ana").stats().embedder == ""


@pytest.mark.parametrize("given", [7, {"colour": "red"}, {"room": "much"}, {"asking": -1}])
def test_settings_that_are_none_are_told(given: Any) -> None:
    with pytest.raises(Invalid, match=r"perdure\.memory\.MemorySettings"):
        perdure.open(":memory:", memory=given)


async def test_async_callers_have_the_same() -> None:
    async with perdure.aopen(":memory:", memory="none") as db:
        ana = db.memory("ana")
        kept = await ana.add(NIGHT)
        assert contents(await ana.search("window seat")) == [NIGHT]
        assert [memory.id async for memory in ana.list()] == [kept.id]
        assert await ana.forget(kept.id) == 1
        assert repr(ana) == "AsyncMemorySpace(vault/ana)"


def test_lists_of_sessions_show_no_logs_of_memories_unless_they_are_asked_for(db: perdure.Perdure) -> None:
    first = db.create("Trip", tags=["memory"], owner="ana")
    db.memory().add(HOME)
    db.memory("helper").add(NIGHT)
    last = db.create("Notes", owner="ana")
    assert [row.session for row in db.find().items] == [last.id, first.id]
    assert [row.session for row in db.find(tags=["memory"]).items] == [first.id]
    assert (db.count(), db.count(tags=["memory"]), db.count(memories=True)) == (2, 1, 4)
    whole = db.find(memories=True).items
    assert [row.session for row in whole if "memory" not in row.tags] == [last.id]
    assert len(whole) == 4
    page = db.find(limit=1)
    assert [row.session for row in page.items] == [last.id]
    rest = db.find(limit=1, cursor=page.cursor)
    assert [row.session for row in rest.items] == [first.id]
    assert rest.cursor is None
    with pytest.raises(Invalid, match="memories is True or False"):
        db.find(memories="yes")  # type: ignore[typeddict-item]


# ── where it comes from, and what it leads to ──


def test_an_answer_says_which_memories_it_rests_on_and_where_they_come_from(db: perdure.Perdure) -> None:
    ana, taught = db.memory("ana"), db.create("Lessons")
    version = taught.append(perdure.events.Message(role="user", content="Gold is dug near Velm"))
    source = {"kind": "user", "session": taught.id, "version": version}
    used = ana.add("Gold is dug in the northern hills near Velm", source=source)
    unused = ana.add("Gold was once traded for salt")
    session = db.create("Digging", config={"model": "offline/echo", "memory": {"agent": "ana"}})
    session.send("They say that gold is dug in the northern hills near Velm")
    found = session.grounds(1)
    assert (found.session, found.turn, found.missing) == (session.id, 1, False)
    assert {one.id for one in found.shown} == {used.id, unused.id}
    assert found.unused == (unused.id,)
    [ground] = found.grounds
    assert (ground.support.memory, ground.support.how) == (used.id, "words")
    assert (ground.source.kind, ground.source.session, ground.source.version) == ("user", taught.id, version)
    assert ground.address.endswith(used.id)
    with pytest.raises(NotFound, match="has no turn 2"):
        session.grounds(2)
    with pytest.raises(Invalid, match="turn is a whole number"):
        session.grounds("1")  # type: ignore[arg-type]


def test_what_comes_from_a_source_is_counted_taken_out_of_use_brought_back_and_erased(db: perdure.Perdure) -> None:
    ana, helper, bad = db.memory("ana"), db.memory("helper"), db.create("Bad")
    for space in (ana, helper):
        space.add(f"{NIGHT}, says {space.space}", source={"session": bad.id})
    ana.add(HOME)
    source = db.memories_from(session=bad)
    told = source.report()
    assert (told.action, told.source, told.value, told.memories, len(told.spaces)) == (
        "report",
        "session",
        bad.id,
        2,
        2,
    )
    assert source.quarantine("it lies").memories == 2
    assert (contents(ana.list()), contents(helper.list())) == ([HOME], [])
    assert source.quarantine().memories == 0
    assert source.release().memories == 2
    assert len(list(ana.list())) == 2
    assert db.memories_from(session=bad.id).erase("its owner asked").memories == 2
    assert contents(ana.list(statuses=tuple(Status))) == [HOME]
    assert source.report().memories == 0
    assert repr(source).endswith(f"MemorySource(session={bad.id})")
    for wrong in ({}, {"writer": "x", "uri": "y"}):
        with pytest.raises(Invalid, match="name one source"):
            db.memories_from(**wrong)
    with pytest.raises(Invalid, match="uri is a text"):
        db.memories_from(uri=3)  # type: ignore[arg-type]


def test_an_erased_session_takes_along_what_was_learnt_from_it_if_that_is_asked_for(db: perdure.Perdure) -> None:
    ana = db.memory("ana")
    kept, gone = db.create("One"), db.create("Two")
    for session in (kept, gone):
        ana.add(f"learnt from {session.id}", source={"session": session.id})
    assert (kept.erase(), kept.id in str(contents(ana.list()))) == (0, True)
    stale = gone.version() - 1
    with pytest.raises(perdure.errors.VersionConflict):
        gone.erase(expected=stale, forget=True)
    assert len(contents(ana.list())) == 2
    branch = gone.branch()
    done = gone.erase(expected=gone.version(), forget=True)
    assert (done, done.memories) == (1, 1)
    assert contents(ana.list(statuses=tuple(Status))) == [f"learnt from {kept.id}"]
    assert branch.info().title == "Two"
    with pytest.raises(NotFound):
        gone.info()
    with pytest.raises(Invalid, match="forget is True or False"):
        branch.erase(forget="yes")  # type: ignore[arg-type]


def test_what_passes_all_gates_needs_a_review_unless_the_space_says_otherwise(db: perdure.Perdure) -> None:
    ana, everybody = db.memory("ana"), db.memory(lethe=True)
    everybody.add("Trains run on rails")
    assert everybody.auto_accept() is False
    fact = "The ticket machine on platform 3 takes cards"
    first = ana.add(fact)
    assert everybody.auto_accept(True) is True
    made = ana.propose(first.id, to=everybody, evidence=["seen twice", "told by the clerk"], ttl=30 * 86_400)
    assert (made.accepted, made.gates) == (True, dict.fromkeys(made.gates, "pass"))
    assert fact in contents(everybody.list())
    assert everybody.auto_accept(False) is False
    second = ana.add("Seats in coach 7 have sockets")
    again = ana.propose(second.id, to=everybody, evidence=["seen twice", "told by the clerk"], ttl=30 * 86_400)
    assert again.accepted is None
    with pytest.raises(Invalid, match="allow is True or False"):
        everybody.auto_accept("on")  # type: ignore[arg-type]


# ── vectors ──


def test_another_embedder_makes_its_vectors_on_demand(tmp_path: Path) -> None:
    pytest.importorskip("wordllama")
    path, seen = str(tmp_path / "agent.db"), list[tuple[int, int]]()
    with perdure.open(path, memory="none") as db:
        ana = db.memory("ana")
        ana.add_many([NIGHT, "Ana is allergic to nuts"])
        assert (ana.reembed().embedder, ana.stats().embedded) == ("", 0)
    with perdure.open(path, memory="wordllama") as db:
        ana = db.memory("ana")
        assert (ana.stats().embedded, ana.search("nuts")[0].memory.content) == (0, "Ana is allergic to nuts")
        done = ana.reembed(progress=lambda far, of: seen.append((far, of)))
        assert (done.made, done.left, done.memories, ana.stats().embedded) == (2, 0, 2, 2)
        assert seen == [(0, 2), (2, 2)]
        assert ana.reembed().made == 0


def test_where_there_is_no_embedder_nothing_is_made(db: perdure.Perdure) -> None:
    ana = db.memory("ana")
    ana.add(NIGHT)
    done = ana.reembed(progress=lambda *_: None)
    assert (done.embedder, done.made, done.memories, ana.stats().embedded) == ("", 0, 1, 0)


@pytest.mark.parametrize("asking", ["5", None, -1, 0.5, float("nan"), True])
def test_settings_are_checked_however_they_are_given(asking: Any) -> None:
    for given in (MemorySettings(asking=asking), {"asking": asking}):
        with pytest.raises(Invalid, match="asking"):
            perdure.open(":memory:", memory=given)


# ── times that are given in seconds ──


@pytest.mark.parametrize("wrong", [1_790_000_000, 1_790_000_000_000, 1])
def test_a_time_that_looks_like_seconds_is_refused_and_its_field_named(db: perdure.Perdure, wrong: int) -> None:
    ana = db.memory("ana")
    one = ana.add("tea")
    for name in ("valid_from", "valid_to"):
        for call in (
            lambda name=name: ana.add("x", **{name: wrong}),
            lambda name=name: ana.add_many([{"content": "x", name: wrong}]),
            lambda name=name: ana.update(one.id, **{name: wrong}),
        ):
            with pytest.raises(Invalid, match=rf"microseconds since 1970; {wrong} looks like .*seconds") as refused:
                call()
            assert refused.value.fields["field"] == name
        with pytest.raises(BadExport, match="looks like"):
            ana.import_([{"content": "x", name: wrong}])
    assert [memory.content for memory in ana.list()] == ["tea"]


def test_a_day_before_1973_is_kept_and_taken_elsewhere(db: perdure.Perdure) -> None:
    ana, ben = db.memory("ana"), db.memory("ben")
    born, wed = datetime(1971, 6, 1, tzinfo=UTC), datetime(1972, 6, 1, tzinfo=UTC)
    one = ana.add("Ana was born", valid_from=born)
    assert ana.update(one.id, valid_to=wed).valid_to == 76_204_800_000_000
    ana.add("Ana was small", valid_from=-5, valid_to=0)
    assert ben.import_(ana.export()).kept == 2
    assert [(memory.valid_from, memory.valid_to) for memory in ben.list()] == [
        (memory.valid_from, memory.valid_to) for memory in ana.list()
    ]


# ── spaces, and whom they let in ──


def test_the_spaces_there_are_are_listed_those_begun_last_first(db: perdure.Perdure) -> None:
    assert list(db.spaces()) == []
    wanted = [db.memory("ana"), db.memory("ben")]
    for space in wanted:
        space.add("tea")
    found = list(db.spaces())
    assert [one.space for one in found] == [space.space for space in reversed(wanted)]
    assert [row.session for row in db.find(memories=True).items] == [one.session for one in found]
    assert all(one.created_at <= one.active_at for one in found)


def test_a_clade_lets_in_whom_its_owner_says(db: perdure.Perdure) -> None:
    desk = db.memory(clade="desk")
    with pytest.raises(NotFound, match="share"):
        desk.share()
    made = desk.share(users=["ben"], agents={"critic": "read"})
    assert (made.space, made.users, made.agents) == ("clade/desk", ("ben",), {"critic": "read"})
    assert desk.share(users=["cal"]) == desk.share() == msgspec.structs.replace(made, users=("cal",))
    desk.add("the desk opens at nine")
    assert desk.share(agents={}).agents == {}
    assert contents(desk.list()) == ["the desk opens at nine"]
    for wrong in ({"users": "ben"}, {"agents": ["critic"]}, {"agents": {"critic": "rule"}}):
        with pytest.raises(Invalid):
            desk.share(**wrong)
    with pytest.raises(Invalid, match="not shared"):
        db.memory("ana").share(users=["ben"])


@pytest.mark.parametrize("call", ["create", "configure"])
def test_what_a_session_is_to_be_shown_has_known_fields(db: perdure.Perdure, call: str) -> None:
    config = {"memory": {"agnet": "ana"}}
    with pytest.raises(Invalid, match="no field 'agnet'; there are enabled, agent, clades") as refused:
        db.create("Trip", config=config) if call == "create" else db.create("Trip").configure(config=config)
    assert "unknown field" not in refused.value.message
