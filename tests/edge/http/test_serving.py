"""What a server does by itself, again and again: nothing that fails ends it, or keeps the store from being closed."""

import asyncio
import logging
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from perdure.compose.tenants import Tenants
from perdure.core.errors import Denied, Invalid, StoreBusy
from perdure.edge.http import serving
from perdure.edge.http.serving import Life
from perdure.services.directory import Directory
from tests.edge.client.served import served

PATIENCE = 20.0
SOON = 0.01


@pytest.mark.parametrize("error", [Invalid, Denied, StoreBusy, ValueError])
def test_making_vectors_goes_on_whatever_failed(
    error: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    seen, others = list[str](), Event()

    async def reembedded(_: Any, tenant: str) -> None:
        seen.append(tenant)
        if seen.count("local") > 1 and "other" in seen:
            others.set()
        raise error("no")

    monkeypatch.setattr(serving, "reembedded", reembedded)
    caplog.set_level(logging.WARNING)
    with served(tmp_path, sweep_interval=SOON) as running:
        running.key_for("other")
        assert others.wait(PATIENCE)
    assert "making vectors broke off" in caplog.text


def test_it_goes_on_though_nobody_could_say_whose_turn_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    again, book = Event(), Directory.book

    async def busy(directory: Directory) -> Any:
        if asyncio.current_task() in reembedding and not again.is_set():
            again.set()
            raise StoreBusy("no")
        return await book(directory)

    seen, reembedding, reembed = Event(), list[Any](), Life._reembed

    async def noted(life: Life, node: Any) -> None:
        reembedding.append(asyncio.current_task())
        await reembed(life, node)

    async def reembedded(_: Any, __: str) -> None:
        if again.is_set():
            seen.set()

    monkeypatch.setattr(Directory, "book", busy)
    monkeypatch.setattr(Life, "_reembed", noted)
    monkeypatch.setattr(serving, "reembedded", reembedded)
    with served(tmp_path, sweep_interval=SOON):
        assert seen.wait(PATIENCE)


def test_a_store_is_closed_though_something_beside_it_had_broken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    closed, close = Event(), Tenants.close

    async def broken(_: Life, __: Any) -> None:
        raise ValueError("no")

    async def noted(tenants: Tenants) -> None:
        await close(tenants)
        closed.set()

    monkeypatch.setattr(Life, "_reembed", broken)
    monkeypatch.setattr(Tenants, "close", noted)
    with served(tmp_path):
        pass
    assert closed.is_set()
    assert "perdure-reembedding" in repr([record.__dict__ for record in caplog.records])
