"""Memory at a server whose embedder is an address: nothing waits for it, all tenants know that it is away."""

import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

import perdure
from perdure.core.errors import Invalid, ProviderDown
from perdure.edge.http.building import opened
from perdure.edge.http.configuring import configure
from perdure.edge.http.remembering import Remembering
from perdure.edge.http.serving import reembedded
from perdure.edge.http.settings import Settings
from tests.edge.client.served import served
from tests.edge.http.world import world
from tests.embedders.answering import KEY, Server, address, answering, nobodys_port

LACKING = "by words alone: the embedder failed"


@pytest.fixture
def server() -> Iterator[Server]:
    with answering() as server:
        yield server


def named(server: Server | int) -> str:
    return f"{address(server)}#m"


async def test_a_search_says_that_words_alone_decided(server: Server) -> None:
    server.behave = "503"
    async with world(memory=Remembering(embedder=named(server))) as there:
        ana = await there.principal("ana")
        assert (await ana.post("/v1/memory", {"content": "Prefers a window seat"})).status == 201
        asked = {"query": "a seat"}
        (item,) = (await ana.post("/v1/memory/search", asked)).json["items"]
        assert (item["memory"]["content"], item["lacking"]) == ("Prefers a window seat", LACKING)
        assert (await ana.get("/v1/memory/stats")).json["embedded"] == 0
        assert (await ana.get("/v1/memory")).json["items"]
        assert (await ana.post("/v1/memory/reembed", {})).status >= 500
        server.behave = ""
        assert (await ana.post("/v1/memory/reembed", {})).json["made"] == 1
        (item,) = (await ana.post("/v1/memory/search", asked)).json["items"]
        assert item["lacking"] == ""


async def test_what_one_tenant_has_found_away_no_other_asks_again(server: Server) -> None:
    server.behave = "503"
    async with world(memory=Remembering(embedder=named(server))) as there:
        for tenant in ("local", "other"):
            ana = await there.principal("ana", tenant=tenant)
            await ana.post("/v1/memory", {"content": "Prefers a window seat"})
            assert (await ana.post("/v1/memory/search", {"query": "a seat"})).json["items"]
        assert len(server.asked) == 1
        server.behave = ""
        there.store.services("other").memories.shelves.ask_again()
        for tenant in ("local", "other"):
            services = there.store.services(tenant)
            await reembedded(services, tenant)
            assert (await services.memories.reembedding.sweep()).made == {}


@pytest.mark.parametrize("status", ["422", "500"])
async def test_the_log_tells_why_there_are_no_vectors_but_nothing_of_what_they_were_to_be_made_of(
    server: Server, status: str, caplog: pytest.LogCaptureFixture
) -> None:
    server.behave = status
    caplog.set_level(logging.INFO)
    async with world(memory=Remembering(embedder=named(server))) as there:
        for tenant in ("local", "other"):
            ana = await there.principal("ana", tenant=tenant)
            there.store.services(tenant).memories.shelves.ask_again()
            assert (await ana.post("/v1/memory", {"content": f"The diagnosis of {tenant}"})).status == 201
            assert (await ana.post("/v1/memory/search", {"query": "a diagnosis"})).status == 200
        for tenant in ("local", "other"):
            await reembedded(there.store.services(tenant), tenant)
    told = [record.__dict__ for record in caplog.records]
    assert [one["tenant"] for one in told if status in one.get("why", "")] == ["local", "other"]
    assert "diagnosis" not in repr(told)


async def test_the_environment_names_the_key(server: Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    server.behave = "guarded"
    said = json.dumps({"embedder": named(server), "key_env": "OUR_KEY"})
    memory = configure(environ={"PERDURE_MEMORY": said}).settings.memory
    monkeypatch.delenv("OUR_KEY", raising=False)
    with pytest.raises(Invalid, match="OUR_KEY"):
        opened(Settings(store=str(tmp_path / "never.db"), memory=memory))
    assert not (tmp_path / "never.db").exists()
    monkeypatch.setenv("OUR_KEY", KEY)
    async with world(memory=memory) as there:
        ana = await there.principal("ana")
        await ana.post("/v1/memory", {"content": "Prefers a window seat"})
        assert (await ana.get("/v1/memory/stats")).json["embedded"] == 1


def test_a_server_does_not_start_with_an_embedder_that_nobody_knows(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="bogus"):
        opened(Settings(store=str(tmp_path / "never.db"), memory=Remembering(embedder="bogus")))


def test_who_is_connected_is_told_the_same(tmp_path: Path) -> None:
    memory = Remembering(embedder=named(nobodys_port()))
    with served(tmp_path, memory=memory) as running, perdure.connect(running.url, running.key_for("local")) as db:
        ana = db.memory()
        ana.add("Prefers a window seat")
        (found,) = ana.search("a seat")
        assert (found.memory.content, found.lacking) == ("Prefers a window seat", LACKING)
        with pytest.raises(ProviderDown):
            ana.reembed()
