"""The audit log: written or counted, found to be edited when it is, cut short when it was, and without any content."""

import asyncio
import json
import os
import shutil
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import pytest

from perdure.compose.tenants import SYSTEM, Tenants
from perdure.core.access.entries import UNFIT, AuditEntry, Filters, Missed
from perdure.core.errors import BadExport, DiskFull, Invalid, NotFound
from perdure.core.session.ids import SessionId, raw
from perdure.services import auditing as module
from perdure.services.auditing import Auditing, AuditLine
from perdure.services.verifying import Report
from tests.services.houses import House, bare, filed, house, server, shared

__all__ = ["bare", "filed", "house", "server", "shared"]


def entry(what: str = "read", **more: Any) -> AuditEntry:
    return AuditEntry(what=what, actor="prn_ada", credential="key", at=more.pop("at", 5), **more)


async def all_of(auditing: Auditing, tenant: str = "acme") -> list[Any]:
    return [line.entry for line in (await auditing.page(tenant, limit=1000)).items]


async def test_what_was_noted_is_there_on_every_node(house: House) -> None:
    one, other = house.node().auditing, house.node().auditing
    await one.note("acme", entry(outcome="denied", reason="role", session="s"))
    (found,) = await all_of(other)
    assert (found.what, found.actor, found.outcome, found.reason, found.tenant) == (
        "read",
        "prn_ada",
        "denied",
        "role",
        "acme",
    )
    assert await all_of(other, "rival") == []
    await other.note("acme", entry("write"))
    assert [each.what for each in await all_of(one)] == ["read", "write"]


async def test_notes_that_come_at_once_are_all_there_once(house: House) -> None:
    nodes = [house.node().auditing for _ in range(2)]
    await asyncio.gather(*(nodes[number % 2].note("acme", entry(f"w{number}")) for number in range(40)))
    assert sorted(each.what for each in await all_of(nodes[0])) == sorted(f"w{number}" for number in range(40))


async def test_later_is_written_behind_and_alike_ones_are_counted_together(house: House) -> None:
    auditing = house.node().auditing
    for at in range(10):
        auditing.later("acme", entry(at=at, request=f"r{at}"))
    auditing.later("acme", entry("write"))
    assert await all_of(auditing) == []
    await auditing.flush()
    read, write = await all_of(auditing)
    assert (read.count, read.at, read.until) == (10, 0, 9)
    assert (write.count, write.until) == (1, None)
    await auditing.flush()
    assert len(await all_of(auditing)) == 2


async def test_beyond_the_bound_entries_are_counted_and_the_count_is_written(house: House) -> None:
    node = house.node()
    system = node.services("_perdure")
    auditing = Auditing(system.sessions, node.directory, system.verifying, system.heads, most=3)
    for number in range(10):
        auditing.later("acme", entry(f"w{number}", at=number))
    await auditing.note("acme", entry("urgent"))
    found = await all_of(auditing)
    assert [each.what for each in found if isinstance(each, AuditEntry)] == ["w0", "w1", "w2", "urgent"]
    (missed,) = [each for each in found if isinstance(each, Missed)]
    assert (missed.count, missed.at, missed.until) == (7, 3, 9)


async def test_the_running_server_writes_behind_and_shutting_down_loses_nothing(house: House) -> None:
    node = house.node()
    before = asyncio.all_tasks()
    running = asyncio.create_task(node.auditing.run())
    node.auditing.later("acme", entry())
    async with asyncio.timeout(30):
        while not await all_of(node.auditing):  # noqa: ASYNC110 - the log is what is waited for
            await asyncio.sleep(0.01)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert asyncio.all_tasks() == before
    node.auditing.later("acme", entry("last"))
    if house.engine == "volatile":
        await node.auditing.flush()
        assert [each.what for each in await all_of(node.auditing)] == ["read", "last"]
        return
    await node.close()
    await node.close()
    assert [each.what for each in await all_of(house.node().auditing)] == ["read", "last"]


async def test_a_full_disk_keeps_entries_waiting(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    auditing = house.node().auditing
    await auditing.note("acme", entry("first"))

    async def full(*_: Any, **__: Any) -> int:
        raise DiskFull("no space left; free some")

    with monkeypatch.context() as broken:
        broken.setattr(module, "note", full)
        auditing.later("acme", entry("second"))
        auditing.later("acme", entry("second"))
        with pytest.raises(DiskFull):
            await auditing.flush()
        auditing.later("acme", entry("second"))
        auditing.later("acme", entry("third"))
        with pytest.raises(DiskFull):
            await auditing.note("acme", entry("urgent"))
        running = asyncio.create_task(auditing.run())
        async with asyncio.timeout(30):
            while auditing.trouble is None:  # noqa: ASYNC110 - what the server would show is waited for
                await asyncio.sleep(0)
        assert auditing.trouble == "disk_full"
        running.cancel()
    await auditing.flush()
    assert [(each.what, each.count) for each in await all_of(auditing)] == [
        ("first", 1),
        ("second", 3),
        ("third", 1),
        ("urgent", 1),
    ]


async def test_no_content_and_no_address_gets_in(house: House) -> None:
    node = house.node()
    await node.auditing.note("acme", entry(session="my secret diary", address="203.0.113.7"))
    await node.auditing.note("acme", entry(address="203.0.113.7"))
    await house.node().auditing.note("acme", entry(address="203.0.113.8"))
    first, second, third = await all_of(node.auditing)
    assert (first.session, first.address) == (UNFIT, None)
    assert first.origin == second.origin != third.origin
    log = node.services("_perdure").sessions.log
    events = await log.events(await log.head(node.auditing.session("acme")))
    assert not any(word in event.entry.data for event in events for word in (b"203.0.113", b"diary"))
    node.auditing.plainly = True
    await node.auditing.note("acme", entry(address="203.0.113.7"))
    assert (await all_of(node.auditing))[-1].address == "203.0.113.7"


async def test_pages_go_both_ways_and_filters_pass_over_the_rest(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WINDOW", 4)
    auditing = house.node().auditing
    for number in range(25):
        auditing.later("acme", entry(f"w{number}", outcome=("allowed", "denied")[number % 2], at=number))
    await auditing.flush()

    async def walk(**how: Any) -> list[AuditLine]:
        found: list[AuditLine] = []
        place = None
        while True:
            page = await auditing.page("acme", place, 4, **how)
            found += page.items
            if page.next is None:
                return found
            place = page.next

    names = [f"w{number}" for number in range(25)]
    whats = [line.entry.what for line in await walk() if isinstance(line.entry, AuditEntry)]
    assert whats == names
    assert [line.entry.what for line in await walk(newest=True)] == names[::-1]  # type: ignore[union-attr]
    denied = await walk(filters=Filters(outcome="denied", since=5))
    assert [line.entry.what for line in denied] == [name for name in names[5:] if int(name[1:]) % 2]  # type: ignore[union-attr]
    monkeypatch.setattr(module, "SCANNED", 10)
    rare = await auditing.page("acme", limit=4, filters=Filters(what="w24"))
    assert (rare.items, rare.next) == ((), 10)
    assert [line.entry.at for line in await walk(filters=Filters(what="w24"))] == [24]
    for wrong in ((None, 0), (None, 1001), (-1, 5), ("x", 5)):
        with pytest.raises(Invalid):
            await auditing.page("acme", *wrong)  # type: ignore[arg-type]


# ── tampering ──


async def written(house: House) -> Tenants:
    node = house.node()
    for number in range(6):
        await node.auditing.note("acme", entry(f"w{number}"))
    await node.auditing.flush()
    report = await node.auditing.verify("acme")
    assert (report.ok, report.events) == (True, 8)
    assert report.signed == (8 if house.sealed else None)
    return node


def sql(path: Path, statement: str, *bound: Any) -> list[Any]:
    with closing(apsw.Connection(str(path))) as connection:
        return connection.execute(statement, bound).fetchall()


OWN = "(SELECT no FROM session WHERE session_id = ?)"


async def test_an_untouched_log_is_whole_and_one_that_never_was_is_too(house: House) -> None:
    node = await written(house)
    assert (await node.auditing.verify("rival")).ok


async def test_those_who_verify_at_once_share_a_look(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """A long log takes its time: however many ask while it is looked through, it is looked through once more."""
    node = house.node()
    await node.auditing.note("acme", entry())
    verifying, looks = node.services(SYSTEM).verifying, 0
    verify = verifying.verify

    async def counted(session: SessionId) -> Report:
        nonlocal looks
        looks += 1
        return await verify(session)

    monkeypatch.setattr(verifying, "verify", counted)
    reports = await asyncio.gather(*(node.auditing.verify("acme") for _ in range(20)))
    assert all(report.ok and report.events == reports[0].events for report in reports)
    assert looks == 1


async def test_an_edited_byte_is_found(filed: House) -> None:
    node = await written(filed)
    session = node.auditing.session("acme")
    await node.close()
    for first, body in sql(filed.path, f"SELECT first, body FROM record WHERE session = {OWN}", raw(session)):
        for place in (0, len(body) // 2, len(body) - 1):
            edited = body[:place] + bytes([body[place] ^ 1]) + body[place + 1 :]
            where = f"WHERE session = {OWN} AND first = ?"
            sql(filed.path, f"UPDATE record SET body = ? {where}", edited, raw(session), first)
            node = filed.node()
            report = await node.auditing.verify("acme")
            assert not report.ok
            assert any(each.versions and each.versions[0] <= first <= each.versions[1] for each in report.problems), (
                report
            )
            await node.close()
            sql(filed.path, f"UPDATE record SET body = ? {where}", body, raw(session), first)
    assert (await filed.node().auditing.verify("acme")).ok


async def test_a_cut_tail_is_found_where_heads_are_signed(filed: House) -> None:
    node = filed.node()
    await node.auditing.note("acme", entry("kept"))
    session = node.auditing.session("acme")
    columns = ("state_version", "digest", "last_active_at", "activity")
    (row,) = sql(filed.path, f"SELECT {', '.join(columns)} FROM session WHERE session_id = ?", raw(session))
    await node.auditing.note("acme", entry("theft"))
    await node.close()
    sql(filed.path, f"DELETE FROM record WHERE session = {OWN} AND first > ?", raw(session), row[0])
    sets = ", ".join(f"{name} = ?" for name in columns)
    sql(filed.path, f"UPDATE session SET {sets} WHERE session_id = ?", *row, raw(session))
    report = await filed.node().auditing.verify("acme")
    assert [each.place for each in report.problems] == ["head"]
    assert "the tail was cut" in report.problems[0].what


async def test_a_log_that_was_taken_out_or_replaced_is_found(filed: House) -> None:
    before = filed.path.with_suffix(".before")
    node = filed.node()
    await node.directory.secret("audit/addresses")
    await node.close()
    shutil.copy(filed.path, before)
    await (await written(filed)).close()
    shutil.copy(before, filed.path)
    assert not [name for name in os.listdir(before.parent) if name.endswith("-wal")]
    node = filed.node()
    gone = await node.auditing.verify("acme")
    assert (gone.ok, [each.place for each in gone.problems]) == (False, ["head"])
    await node.auditing.note("acme", entry("as if nothing had been"))
    again = await node.auditing.verify("acme")
    assert (again.ok, [each.place for each in again.problems]) == (False, ["head"])


# ── exporting ──


async def test_an_export_ends_in_the_signature_over_its_last_digest(house: House) -> None:
    node = await written(house)
    lines = [json.loads(line) async for line in node.auditing.export("acme")]
    events = [line for line in lines if "perdure" not in line]
    assert [line["data"]["data"]["what"] for line in events if line["kind"] == "noted"] == [f"w{n}" for n in range(6)]
    (footer,) = [line for line in lines if line.get("perdure") == "end"]
    assert footer["digest"] == events[-1]["digest"]
    if not house.sealed:
        assert lines[-1] == footer
        return
    signed = lines[-1]
    assert (signed["perdure"], signed["digest"], signed["version"]) == ("signature", footer["digest"], 8)


async def test_an_export_is_proven_by_itself_and_its_signature_by_the_keys(house: House) -> None:
    node = await written(house)
    lines = [line async for line in node.auditing.export("acme")]
    checked = node.auditing.check_export(lines)
    assert (checked.genuine, checked.proven.events) == (True if house.sealed else None, 8)
    for number, line in enumerate(lines):
        for old, new in (
            (b'"w3"', b'"w4"'),
            (b'"version":', b'"version":1'),
            (b'"at":', b'"at":1'),
            (b'"mac":"', b'"mac":"x'),
        ):
            if old in line:
                edited = [*lines[:number], line.replace(old, new), *lines[number + 1 :]]
                if line is lines[-1] and old == b'"at":':  # well spelled, but not what was signed
                    assert node.auditing.check_export(edited).genuine is False
                    continue
                with pytest.raises(BadExport):
                    node.auditing.check_export(edited)
    for broken in (lines[:3], [*lines, lines[-1]], lines[1:], []):
        with pytest.raises(BadExport):
            node.auditing.check_export(broken)


async def test_there_is_nothing_to_export_where_nothing_was_audited(house: House) -> None:
    with pytest.raises(NotFound):
        _ = [line async for line in house.node().auditing.export("acme")]
