"""The library's contract about memory, at a server, and what is only so over a connection."""

import inspect
from collections.abc import Iterator
from typing import Any

import pytest

import perdure
from perdure.core.access.roles import Role
from perdure.core.errors import Denied, NotFound, QuotaReached, Refused, StoreClosed
from perdure.edge.http.remembering import Remembering
from tests.edge import test_memory as embedded
from tests.edge.client.conftest import OWNER
from tests.edge.client.scripted import answer, problem, scripted
from tests.edge.client.served import Served, served

CLADES = "a clade is begun before it is written to; as below"
APART = {"test_spaces_do_not_see_each_other": CLADES}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server that goes by words alone, as the embedded stores here do."""
    with served(tmp_path_factory.mktemp("served"), memory=Remembering(embedder="none")) as running:
        yield running


@pytest.fixture
def db(server: Served, tenant: str) -> Iterator[perdure.Perdure]:
    with perdure.connect(server.url, server.key_for(tenant, OWNER)) as connected:
        yield connected


def journeys() -> dict[str, Any]:
    """Those that ask for a store and nothing of its insides."""
    found = {name: value for name, value in vars(embedded).items() if name.startswith("test_")}
    return {
        name: journey
        for name, journey in found.items()
        if name not in APART and "db" in inspect.signature(journey).parameters
    }


globals().update(journeys())


def test_vaults_are_their_owners_and_lethe_is_everybodys(server: Served, tenant: str) -> None:
    ana = perdure.connect(server.url, server.key_for(tenant, "ana", Role.OWNER, Role.ADMIN))
    ben = perdure.connect(server.url, server.key_for(tenant, "ben", Role.OWNER))
    with ana, ben:
        kept = ana.memory().add("a secret of ana's")
        ana.memory("helper").add("a secret of the helper's")
        ana.memory(lethe=True).add("a secret that all know")
        assert [space.search("secret") for space in (ben.memory(), ben.memory("ana"), ben.memory("helper"))] == [()] * 3
        with pytest.raises(NotFound, match="in vault/ben:ana"):
            ben.memory("ana").get(kept.id)
        assert [found.memory.content for found in ben.memory(lethe=True).search("secret")] == ["a secret that all know"]
        with pytest.raises(Denied):
            ben.memory(lethe=True).add("and one of ben's")
        with pytest.raises(NotFound):
            ben.memory(clade="desk").add("to nobody")


def test_a_memory_that_was_kept_while_the_answer_was_lost_is_kept_once() -> None:
    refused = problem(503, "unavailable", "retry-after: 0")
    with scripted(None, refused, answer(201, {"items": [], "cursor": None})) as server:
        with perdure.connect(server.url, "key") as db:
            assert db.memory("ana").add_many(["one"]) == ()
        keys = server.keys("/v1/memory/batch")
        assert (len(keys), len(set(keys))) == (3, 1)


def test_what_a_quota_refuses_is_told_with_its_fields() -> None:
    refused = problem(429, "quota_reached", "retry-after: 7200", quota="queries", retry_after=7200)
    with scripted(refused) as server, perdure.connect(server.url, "key") as db:
        with pytest.raises(QuotaReached) as error:
            db.memory("ana").search("anything")
        assert error.value.fields == {"quota": "queries", "retry_after": 7200}
        assert server.count("/v1/memory/search") == 1


def test_what_is_odd_in_a_path_stays_one_piece_of_it() -> None:
    with scripted(problem(404, "not_found")) as server, perdure.connect(server.url, "key") as db:
        with pytest.raises(NotFound, match="no memory"):
            db.memory("a b&c").get("../sessions?x=1")
        assert "GET /v1/memory/..%2Fsessions%3Fx%3D1?agent=a+b%26c " in server.asked[-1][0]


def test_what_is_proposed_to_a_vault_is_reviewed_where_the_store_is(db: perdure.Perdure) -> None:
    for call in (db.memory().proposals, lambda: db.memory().review("x", True)):
        with pytest.raises(Refused, match="where the store is"):
            call()


async def test_async_callers_have_the_same_at_a_server(server: Served, tenant: str) -> None:
    async with perdure.aconnect(server.url, server.key_for(tenant, OWNER)) as db:
        own = db.memory()
        kept = await own.add("Prefers a window seat")
        assert (own.space, (await own.stats()).space) == ("vault/ana", "vault/ana")
        critic = db.memory("critic")
        assert (critic.space, (await critic.stats()).space) == ("vault/ana:critic", "vault/ana:critic")
        assert [memory.id async for memory in own.list(types="fact")] == [kept.id]
        assert [memory.id async for memory in own.list(types="episode")] == []
    with pytest.raises(StoreClosed):
        await own.get(kept.id)
