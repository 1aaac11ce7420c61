"""Erasing, redacting, pruning: what is gone is gone everywhere, and whoever shared it loses nothing else."""

from collections.abc import Awaitable, Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from perdure import CheckpointPolicy, Config, SnapshotPolicy
from perdure import events as ev
from perdure.core.errors import AlreadyExists, Invalid, NotFound, PruneRefused, RedactionRefused, VersionConflict
from perdure.core.session.ids import named
from perdure.core.session.state import to_bytes
from perdure.testing import FixedAmbient

Opens = Callable[..., Awaitable[Any]]
# Chance does not compress: stored bytes hold it as it is, so that looking for it in a file says something.
SECRET = b"".join(sha256(bytes([number])).digest() for number in range(12))
WORD = "xylophonist"


def said(content: Any = "hello", role: str = "user") -> ev.Message:
    return ev.Message(role=role, content=content)


async def texts(session: Any) -> list[Any]:
    return [message.content for turn in await session.turns() for message in turn.messages]


def in_file(folder: Path, wanted: bytes) -> bool:
    """Whether any file of the store, journals included, holds these bytes."""
    return any(wanted in path.read_bytes() for path in folder.iterdir() if path.is_file())


# ── erasing ───────────────────────────────────────────────────────────────────────────────────────


async def test_an_erased_session_is_nowhere(opens: Opens) -> None:
    db = await opens()
    session = await db.create("secret trip", key="k")
    checkpoint = await session.checkpoint("x")
    await session.append(said(WORD))
    assert await db.count(text=WORD) == 1
    assert await session.erase() == 0
    for act in (session.info, session.events, session.state, session.export, session.erase, session.verify):
        with pytest.raises(NotFound):
            await act()
    with pytest.raises(NotFound):
        await session.append(said())
    with pytest.raises(NotFound):
        await session.restore(checkpoint.id)
    with pytest.raises(NotFound):
        await (await opens()).session(session.id)
    assert await db.count() == await db.count(text=WORD) == 0
    assert (await db.verify()).ok


async def test_branches_keep_their_past_when_a_parent_is_erased(db: Any) -> None:
    session = await db.create()
    for text in ("a", "b", "c"):
        await session.append(said(text))
    early, late = await session.branch(at=4), await session.branch()
    twig = await late.branch()
    await twig.append(said("d"))
    before = {branch.id: (await branch.events(), to_bytes(await branch.state())) for branch in (early, late, twig)}
    assert await session.erase() == 2
    for branch in (early, late, twig):
        assert (await branch.events(), to_bytes(await branch.state())) == before[branch.id]
        assert (await branch.verify()).ok
    await late.append(said("e"))
    assert await texts(twig) == ["a", "b", "c", "d"]
    assert await texts(early) == ["a", "b"]


@pytest.mark.parametrize("order", [(0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)])
async def test_ancestors_may_be_erased_in_any_order(db: Any, order: tuple[int, ...]) -> None:
    line = [await db.create()]
    for number in range(3):
        await line[-1].append([said(f"{number}"), said(f"{number}!")])
        line.append(await line[-1].branch(at=await line[-1].version() - (number % 2)))
    last, side = line[-1], await line[1].branch()
    await last.append(said("end"))
    expected = {session.id: (await session.events(), to_bytes(await session.state())) for session in (last, side)}
    for index in order:
        await line[index].erase()
        for session in (last, side):
            assert (await session.events(), to_bytes(await session.state())) == expected[session.id]
            assert (await session.verify()).ok
    twig = await last.branch()
    await last.erase()
    assert (await twig.events())[: len(expected[last.id][0])] == expected[last.id][0]
    assert (await db.verify()).ok


async def test_an_exported_session_can_come_back(db: Any) -> None:
    session = await db.create("trip")
    await session.append(said("a"))
    branch = await session.branch()
    lines, events = await session.export(), await session.events()
    await session.erase()
    again = await db.import_jsonl(lines)
    assert await again.events() == events
    await again.redact(3)
    assert await texts(again) == [None]
    assert await texts(branch) == ["a"]
    assert (await db.verify()).ok


# ── redacting ─────────────────────────────────────────────────────────────────────────────────────


async def test_a_redacted_message_is_blank_and_the_chain_stays_whole(opens: Opens) -> None:
    session = await (await opens()).create()
    async with session.turn("my number is 555") as turn:
        call = await turn.ask("dial", {"number": 555})
        await turn.finish(call, "rang 555")
    digests = [event.digest for event in await session.events()]
    assert await session.redact([4, 5, 6], "asked to") == 8
    again = await (await opens()).session(session.id)
    for handle in (session, again):
        events = await handle.events()
        assert [event.digest for event in events[:7]] == digests
        assert [event.version for event in events if event.redacted] == [4, 5, 6]
        (found,) = await handle.turns()
        assert found.messages[0].content is None
        assert (found.calls[0].call, found.calls[0].arguments, found.calls[0].result) == (call, None, None)
        report = await handle.verify()
        assert (report.ok, report.redacted) == (True, 3)
    assert (events[-1].kind, events[-1].data.versions, events[-1].data.reason) == ("redacted", (4, 5, 6), "asked to")


async def test_redacting_is_for_content_that_is_there_and_ones_own(db: Any) -> None:
    session = await db.create()
    version = await session.append(said())
    branch = await session.branch()
    with pytest.raises(RedactionRefused, match="carries structure"):
        await session.redact([version, 1])
    with pytest.raises(NotFound):
        await session.redact(99)
    with pytest.raises(NotFound):
        await session.redact(0)
    with pytest.raises(Invalid, match=session.id):
        await branch.redact(version)
    with pytest.raises(Invalid, match="name the versions"):
        await session.redact([])
    assert not any(event.redacted for event in await session.events())
    assert await session.version() == version


async def test_branches_see_what_their_parent_redacts(opens: Opens) -> None:
    session = await (await opens()).create()
    version = await session.set_vars({"name": "secret"})
    branch = await session.branch()
    twig = await branch.branch()
    unaware = await session.branch(at=1)
    far = [await (await opens()).session(name.id) for name in (session, branch, twig)]
    for handle in far:
        assert (await handle.state()).vars.document == {"name": "secret"}
    await session.redact(version)
    for handle in (session, branch, twig, *far):
        assert (await handle.state()).vars.document == {}
        assert (await handle.events())[version - 1].redacted
        assert (await handle.events())[-1].kind == "redacted"
        assert (await handle.verify()).ok
        assert b"secret" not in b"".join(await handle.export())
    assert (await unaware.events())[-1].kind == "moved"


async def test_a_checkpoint_of_a_stale_handle_does_not_bring_redacted_content_back(opens: Opens) -> None:
    session = await (await opens()).create()
    version = await session.set_vars({"name": "secret"})
    branch = await session.branch()
    far, far_branch = [
        await (await opens(snapshots=SnapshotPolicy(events=1))).session(name.id) for name in (session, branch)
    ]
    await far.state()
    await far_branch.state()
    await session.redact(version)
    for handle in (far, far_branch):
        checkpoint = await handle.checkpoint("late")
        await handle.append(said())
        assert (await handle.restore(checkpoint.id)).state.vars.document == {}
        assert (await (await (await opens()).session(handle.id)).state()).vars.document == {}


async def test_closing_a_stale_handle_caches_no_redacted_content(opens: Opens) -> None:
    db, far = await opens(), await opens()
    session = await db.create()
    version = await session.set_vars({"name": "secret"})
    stale = await far.session(session.id)
    for count in range(120):
        await stale.append(said(count))
    await session.redact(version)
    await far.close()
    await db.close()
    again = await (await opens()).session(session.id)
    assert (await again.state()).vars.document == {}
    assert (await again.state(at=100)).vars.document == {}
    assert (await again.verify()).ok


async def test_a_later_value_outlives_the_redaction_of_an_earlier_one(db: Any) -> None:
    session = await db.create()
    version = await session.set_vars({"name": "secret", "n": 1, "list": ["a"]})
    await session.set_vars({"name": "public", "n": 1, "list": ["a"]})
    await session.write_scratchpad("fine")
    await session.redact(version)
    assert (await session.state()).vars.document == {"name": "public"}
    assert await session.scratchpad() == "fine"
    await session.set_vars({"name": "public", "n": 2})
    assert (await session.state()).vars.document == {"name": "public", "n": 2}


async def test_a_branch_redacts_what_an_erased_parent_left_it(db: Any) -> None:
    session = await db.create()
    version = await session.append(said("secret"))
    branch = await session.branch()
    twig = await branch.branch()
    await session.erase()
    await branch.redact(version, "asked to")
    for handle in (branch, twig):
        assert await texts(handle) == [None]
        assert (await handle.verify()).ok


async def test_redacted_words_are_not_found_and_others_of_the_same_append_are(db: Any) -> None:
    session = await db.create()
    await session.append([said(WORD), said("ordinary")])
    assert await db.count(text=WORD) == 1
    await session.redact(3)
    assert await db.count(text=WORD) == 0
    assert await db.count(text="ordinary") == 1


@pytest.mark.parametrize("searched", [False, True])
async def test_no_byte_of_redacted_content_stays_in_the_file(opens: Opens, tmp_path: Path, searched: bool) -> None:
    db = await opens(snapshots=SnapshotPolicy(events=2), seal=False)
    session = await db.create(config=Config(checkpoints=CheckpointPolicy(full_every=3)))
    versions = [
        await session.append(said([WORD, SECRET])),
        await session.set_vars({"a": SECRET, "b": 1}),
        await session.write_scratchpad(SECRET.hex()),
    ]
    await session.checkpoint("full")
    await session.patch_vars(b=2)
    await session.checkpoint("delta")
    await session.patch_vars(a=1)
    branch = await session.branch()
    await branch.checkpoint()
    for count in range(4):
        await branch.append(said(count))
    if searched:
        assert await db.count(text=WORD) == 1
    await db.close()
    assert in_file(tmp_path, SECRET[64:128])
    assert in_file(tmp_path, WORD.encode())
    db = await opens(seal=False)
    await (await db.session(session.id)).redact(versions)
    assert (await db.verify()).ok
    await db.close()
    for start in range(0, len(SECRET) - 16, 16):
        assert not in_file(tmp_path, SECRET[start : start + 16])
    assert not in_file(tmp_path, WORD.encode())


@pytest.mark.parametrize("searched", [False, True])
async def test_no_byte_of_an_erased_session_stays_in_the_file(opens: Opens, tmp_path: Path, searched: bool) -> None:
    db = await opens(snapshots=SnapshotPolicy(events=2), seal=False)
    kept = await db.create("kept")
    session = await db.create(f"about {WORD}", metadata={"m": SECRET}, tags=["quokka"], vars={"a": SECRET})
    await session.append(said([WORD, SECRET]))
    await session.checkpoint("x", {"m": SECRET})
    if searched:
        assert await db.count(text=WORD) == 1
    await db.close()
    for wanted in (SECRET[64:128], WORD.encode(), b"quokka"):
        assert in_file(tmp_path, wanted)
    db = await opens(seal=False)
    await (await db.session(session.id)).erase()
    await (await db.session(kept.id)).append(said("on"))
    await db.close()
    for wanted in (*[SECRET[start : start + 16] for start in range(0, len(SECRET) - 16, 16)], WORD.encode(), b"quokka"):
        assert not in_file(tmp_path, wanted)


# ── pruning ───────────────────────────────────────────────────────────────────────────────────────


async def test_a_pruned_session_keeps_its_state_and_its_chain(opens: Opens) -> None:
    session = await (await opens()).create(vars={"a": 1})
    for count in range(6):
        await session.append(said(count))
    before, digest = to_bytes(await session.state()), (await session.info()).digest
    assert await session.prune(6) == 6
    again = await (await opens()).session(session.id)
    for handle in (session, again):
        assert to_bytes(await handle.state()) == before
        assert [event.version for event in await handle.events()] == [7, 8, 9]
        assert (await handle.info()).digest == digest
        assert (await handle.verify()).ok
        with pytest.raises(NotFound):
            await handle.state(at=5)
        assert (await handle.state(at=6)).version == 6
    branch = await again.branch(at=7)
    with pytest.raises(NotFound, match="it has 7 to"):
        await again.branch(at=6)
    assert (await branch.verify()).ok
    assert await texts(branch) == [3]


async def test_pruning_ends_where_an_append_ends(db: Any) -> None:
    session = await db.create()
    await session.append([said("a"), said("b"), said("c")])
    await session.append(said("d"))
    assert await session.prune(4) == 2
    with pytest.raises(Invalid):
        await session.prune(4)
    assert await session.prune(5) == 5
    for wrong in (0, 5, 6, 99, -1):
        with pytest.raises(Invalid):
            await session.prune(wrong)


async def test_what_a_branch_or_a_checkpoint_needs_is_not_pruned(db: Any, ambient: FixedAmbient) -> None:
    session = await db.create(config=Config(checkpoints=CheckpointPolicy(ttl=60)))
    checkpoint = await session.checkpoint("needed")
    for count in range(4):
        await session.append(said(count))
    with pytest.raises(PruneRefused, match=checkpoint.id):
        await session.prune(5)
    ambient.advance(60)
    branch = await session.branch()
    with pytest.raises(PruneRefused, match="branch"):
        await session.prune(5)
    await branch.erase()
    assert await session.prune(5) == 5


async def test_no_byte_of_a_pruned_prefix_stays_in_the_file(opens: Opens, tmp_path: Path) -> None:
    db = await opens(seal=False)
    session = await db.create()
    await session.append(said(SECRET))
    await session.append(said("on"))
    await session.append(said("and on"))
    await db.close()
    assert in_file(tmp_path, SECRET[64:128])
    db = await opens()
    await (await db.session(session.id)).prune(4)
    await db.close()
    assert not in_file(tmp_path, SECRET[64:80])


async def test_redacting_part_of_an_append_leaves_every_checkpoint_whole(db: Any) -> None:
    session = await db.create(config=Config(checkpoints=CheckpointPolicy(pre_mutation=True)))
    await session.append([said("a"), said("b")])
    early = await session.branch(at=2)
    for handle in (early, session):
        await handle.write_scratchpad("x")
        await handle.append(said("c"))
        await handle.write_scratchpad("y")
    await session.redact(4)
    for handle in (early, session):
        for item in await handle.checkpoints():
            restored = await handle.restore(item.id)
            assert (restored.rebuilt, to_bytes(restored.state)) == (
                False,
                to_bytes(await handle.state(at=item.version)),
            )


async def test_what_began_and_ended_a_turn_can_be_redacted_and_the_turn_stays(db: Any) -> None:
    session = await db.create()
    await session.append([ev.TurnStarted(content=f"my {WORD}"), ev.TurnFinished(content=WORD, tokens_in=3)])
    assert await db.count(text=WORD) == 1
    await session.redact([3, 4])
    assert await db.count(text=WORD) == 0
    (turn,) = await session.turns()
    assert (turn.number, turn.status, [message.content for message in turn.messages]) == (1, "finished", [])
    assert (await session.info()).open_turn is None


async def test_what_has_gone_on_is_not_erased_by_whoever_expects_it_as_it_was(opens: Opens) -> None:
    db, elsewhere = await opens(), await opens()
    session = await db.create()
    version = await session.append(said("first"))
    await (await elsewhere.session(session.id)).append(said("second"))
    with pytest.raises(VersionConflict):
        await session.erase(expected=version)
    assert await session.version() == version + 1
    assert await session.erase(expected=version + 1) == 0
    with pytest.raises(NotFound):
        await session.info()


async def test_a_branch_may_go_by_a_name(db: Any) -> None:
    session = await db.create(name="first")
    await session.append(said("shared"))
    branch = await session.branch(id=named("local", "second"))
    assert branch.id == named("local", "second")
    assert (await branch.lineage()).parent == session.id
    with pytest.raises(AlreadyExists):
        await session.branch(id=branch.id)
    with pytest.raises(Invalid):
        await session.branch(id="second")
