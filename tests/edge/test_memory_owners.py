"""Vaults of owners, from the library: what their sessions are shown, and nobody else's."""

import pytest

import perdure
from perdure import errors


def shown(db: perdure.Perdure, owner: str, agent: str | None) -> str:
    session = db.create("t", owner=owner, config={"memory": {} if agent is None else {"agent": agent}})
    return "".join(text.text for text in session.context("When may I book?").system)


def test_sessions_are_shown_what_their_owners_vault_keeps() -> None:
    with perdure.open(":memory:") as db:
        db.memory("critic", owner="ben").add("Never book before nine", memory_type="constraint")
        db.memory(owner="ana").add("Never fly", memory_type="constraint")
        assert "before nine" in shown(db, "ben", "critic")
        assert "Never fly" in shown(db, "ana", None)
        assert "Never fly" in shown(db, "ana", "ana")
        for owner, agent in (("eve", "critic"), ("eve", "ben:critic"), ("eve", "ana"), ("", "critic")):
            assert shown(db, owner, agent) == ""


def test_an_owners_vault_is_reached_by_its_whole_name_too() -> None:
    with perdure.open(":memory:") as db:
        kept = db.memory("critic", owner="ben").add("Never book before nine")
        assert [memory.id for memory in db.memory("ben:critic").list()] == [kept.id]
        assert [memory.id for memory in db.memory("critic").list()] == []


def test_only_vaults_have_owners() -> None:
    with perdure.open(":memory:") as db:
        for place in ({"clade": "desk"}, {"lethe": True}):
            with pytest.raises(errors.Invalid, match="only vaults have an owner"):
                db.memory(owner="ben", **place)  # type: ignore[arg-type]
        with pytest.raises(errors.Invalid, match="owner"):
            db.memory(owner=7)  # type: ignore[arg-type]
