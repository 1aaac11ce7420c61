"""Signing in with a link and a cookie: once, for a while, and not a moment longer."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from perdure.core.access import signins as pure
from perdure.core.access.roles import Role
from perdure.core.access.signins import Limits
from perdure.core.errors import DiskFull, TokenExpired, TokenRevoked, Unauthenticated
from perdure.core.session.ids import named
from perdure.services import notes
from perdure.services.signin import SignIn
from tests.services.nodes import ADA, HOME, Node, Secrets


class Door:
    """A node, and signing in at it."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.ambient = node.ambient
        self.holders = {ADA.principal: ADA}
        self.signin = SignIn(node.system, node.secrets, holder=self.holder)

    async def holder(self, principal: str) -> Any:
        return self.holders.get(principal)

    async def entered(self) -> str:
        return (await self.signin.enter(await self.signin.code(ADA.principal))).cookie


@pytest.fixture
async def doors(tmp_path: Path) -> AsyncIterator[list[Door]]:
    secrets = Secrets()
    nodes = [Node(tmp_path, secrets, name) for name in ("one", "two")]
    yield [Door(node) for node in nodes]
    for node in nodes:
        await node.store.close()


@pytest.fixture
def door(doors: list[Door]) -> Door:
    return doors[0]


async def written(door: Door) -> list[Any]:
    head = await door.node.system.log.head(named("_perdure", "signins"))
    return [event.data for event in await door.node.system.log.events(head)]


async def test_a_code_signs_its_principal_in_once(door: Door) -> None:
    code = await door.signin.code(ADA.principal)
    signed = await door.signin.enter(code)
    assert signed.max_age == 12 * 3600
    assert msgspec.structs.replace(signed.actor, credential="") == msgspec.structs.replace(ADA, credential="")
    assert await door.signin.validate(signed.cookie) == signed.actor
    with pytest.raises(Unauthenticated):
        await door.signin.enter(code)
    assert signed.cookie not in repr(signed)


async def test_two_who_enter_at_once_are_one(doors: list[Door]) -> None:
    code = await doors[0].signin.code(ADA.principal)
    found = await asyncio.gather(*(door.signin.enter(code) for door in doors * 4), return_exceptions=True)
    assert sum(not isinstance(each, BaseException) for each in found) == 1
    assert {type(each) for each in found if isinstance(each, BaseException)} == {Unauthenticated}


async def test_a_code_is_over_after_ten_minutes(door: Door) -> None:
    one, two = await door.signin.code(ADA.principal), await door.signin.code(ADA.principal)
    door.ambient.advance(600 - 1e-6)
    await door.signin.enter(one)
    door.ambient.advance(1e-6)
    with pytest.raises(Unauthenticated):
        await door.signin.enter(two)


@pytest.mark.parametrize("code", ["", "x", "A" * 43, "A" * 10**6, "\ud800", "é"])
async def test_what_is_no_code_signs_nobody_in(door: Door, code: str) -> None:
    await door.signin.code(ADA.principal)
    with pytest.raises(Unauthenticated):
        await door.signin.enter(code)


async def test_only_hashes_are_written(door: Door) -> None:
    code = await door.signin.code(ADA.principal)
    await door.signin.enter(code)
    told = repr(await written(door))
    assert code not in told
    assert "'ada'" not in told
    assert "'prn_ada'" in told


async def test_a_sign_in_left_unused_is_over_after_half_an_hour(door: Door) -> None:
    cookie = await door.entered()
    door.ambient.advance(1800 - 1e-6)
    await door.signin.validate(cookie)
    door.ambient.advance(1800)
    with pytest.raises(TokenExpired):
        await door.signin.validate(cookie)


async def test_a_sign_in_in_use_lasts_twelve_hours_and_no_longer(doors: list[Door]) -> None:
    cookie = await doors[0].entered()
    for step in range(12 * 3):
        for door in doors:
            door.ambient.advance(1200)
        if step < 12 * 3 - 1:
            await doors[step % 2].signin.validate(cookie)
    with pytest.raises(TokenExpired):
        await doors[0].signin.validate(cookie)


async def test_uses_are_written_down_seldom(door: Door) -> None:
    cookie = await door.entered()
    before = len(await written(door))
    for _ in range(60):
        door.ambient.advance(10)
        await asyncio.gather(*(door.signin.validate(cookie) for _ in range(3)))
    assert len(await written(door)) - before == 3, "ten minutes, every three of them"


async def test_a_full_disk_keeps_nobody_from_reading(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    cookie = await door.entered()
    door.ambient.advance(600)
    full = 0

    async def append(*_: Any) -> None:
        nonlocal full
        full += 1
        raise DiskFull("no space left")

    monkeypatch.setattr(door.node.store, "append", append)
    assert (await door.signin.validate(cookie)).name == "ada"
    assert full


async def test_signing_out_counts_on_every_node_at_once(doors: list[Door]) -> None:
    one, two = doors
    cookie, other = await one.entered(), await one.entered()
    actor = await two.signin.validate(cookie)
    await one.signin.leave(actor)
    await one.signin.leave(actor)
    with pytest.raises(TokenRevoked):
        await two.signin.validate(cookie)
    await two.signin.validate(other)
    code = await one.signin.code(ADA.principal)
    await two.signin.revoke_all(ADA.principal)
    with pytest.raises(TokenRevoked):
        await one.signin.validate(other)
    with pytest.raises(Unauthenticated):
        await one.signin.enter(code)


async def test_a_sign_in_lasts_on_every_node_until_it_is_left_unused_or_at_its_end(doors: list[Door]) -> None:
    one, two = doors
    actor = await one.signin.validate(await one.entered())
    assert await two.signin.lasts(actor.principal, actor.credential)
    assert not await two.signin.lasts("prn_other", actor.credential)
    assert not await two.signin.lasts(actor.principal, "A" * 43)
    await one.signin.leave(actor)
    assert not await two.signin.lasts(actor.principal, actor.credential)
    unused = await one.signin.validate(await one.entered())
    two.ambient.advance(1800)
    assert not await two.signin.lasts(unused.principal, unused.credential)


async def test_what_a_principal_loses_is_lost_at_once(door: Door) -> None:
    cookie = await door.entered()
    door.holders[ADA.principal] = msgspec.structs.replace(ADA, roles=frozenset({Role.VIEWER}))
    assert (await door.signin.validate(cookie)).roles == {Role.VIEWER}
    del door.holders[ADA.principal]
    with pytest.raises(TokenRevoked):
        await door.signin.validate(cookie)


async def test_nothing_else_is_a_cookie(door: Door) -> None:
    cookie = await door.entered()
    pair = await door.node.tokens.issue(ADA, await door.node.session())
    broken = [cookie[:at] + ("A" if cookie[at] != "A" else "B") + cookie[at + 1 :] for at in range(len(cookie))]
    for shown in (*broken, pair.access, pair.refresh, "", "a.b.c", "x" * 10**6, None, 1, b"x"):
        with pytest.raises(Unauthenticated):
            await door.signin.validate(shown)
    with pytest.raises(Unauthenticated):
        await door.node.tokens.validate(cookie, HOME)


async def test_a_cookie_of_another_server_does_not_count(door: Door) -> None:
    cookie = await door.entered()
    other = SignIn(door.node.system, door.node.secrets, holder=door.holder, audience="elsewhere")
    with pytest.raises(Unauthenticated):
        await other.validate(cookie)


async def test_sums_keep_what_lasts(doors: list[Door], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notes, "EVERY", 5)
    one, two = doors
    cookie = await one.entered()
    code = await one.signin.code(ADA.principal)
    for _ in range(12):
        await one.signin.code("prn_other")
    assert any(note.about == "summed" for note in await written(one) if hasattr(note, "about"))
    assert (await two.signin.validate(cookie)).name == "ada"
    assert (await two.signin.enter(code)).actor.name == "ada"


def test_the_number_kept_is_bounded() -> None:
    book = pure.BLANK
    for number in range(pure.CODES + 5):
        book = pure.fold(book, pure.Offered(code=f"{number:03}", principal="p", until=100 + number, at=0))
    assert min(book.codes) == "005"
    assert len(book.codes) == pure.CODES
    assert pure.summed(book, 110).codes.keys() == {code for code, offer in book.codes.items() if offer.until > 110}
    assert pure.fold(book, pure.Noticed(id="nobody", at=1)) == book


def test_a_sign_in_is_over_when_unused_or_at_its_end_whichever_comes_first() -> None:
    limits, second = Limits(idle=10, absolute=15), 1_000_000
    found = pure.SignedIn(principal="p", handle="h", seen=0, ends=15 * second)
    assert [pure.over(found, limits, at * second) for at in (9, 10)] == [False, True]
    used = msgspec.structs.replace(found, seen=14 * second)
    assert [pure.over(used, limits, at * second) for at in (14, 15)] == [False, True]
