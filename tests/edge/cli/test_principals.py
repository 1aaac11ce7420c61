"""`perdure principals` and `perdure audit` on a store, as an operator uses them."""

import asyncio
import json
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import pytest

import perdure
from perdure.compose.tenants import tenants
from perdure.core.access.entries import AuditEntry
from perdure.core.errors import NotFound, Unauthenticated
from perdure.core.session.ids import named, raw
from perdure.edge.cli import exits
from perdure.waiting import drive
from tests.edge.cli.conftest import Run, Seeded

Asked = Callable[..., Any]


def identified(path: str, key: str) -> str:
    house = tenants(path)
    try:
        return drive(house.directory.identify(key)).name
    finally:
        drive(house.close())


def test_a_principal_is_added_with_a_key_that_opens(seeded: Seeded, run: Run, asked: Asked) -> None:
    made = asked("principals", "add", "Root", "--role", "admin", "--key", "--label", "laptop", "--expires-in", "30d")
    assert identified(seeded.path, made["secret"]) == "Root"
    assert (made["principal"]["roles"], made["key"]["label"]) == (["admin"], "laptop")
    said = run("principals", "add", "Ada", "--role", "owner", "--key")
    assert said.exit_code == 0, said.output
    assert identified(seeded.path, said.stdout.split("\n")[1]) == "Ada"
    again = run("principals", "add", "Ada")
    assert (again.exit_code, "choose another name" in again.stderr) == (exits.CONFLICT, True)


def test_keys_are_made_listed_and_taken_back(seeded: Seeded, run: Run, asked: Asked) -> None:
    run("principals", "add", "Ada", "--role", "owner", "--scope", "read:*")
    made = run("principals", "key", "Ada", "--scope", "read:turns").stdout.strip()
    assert identified(seeded.path, made) == "Ada"
    (held,) = asked("principals", "keys", "Ada")["keys"]
    assert (held["scopes"], held["revoked_at"]) == (["read:turns"], None)
    listed = run("principals", "keys")
    assert held["id"] in listed.stdout
    assert made.rpartition("_")[2] not in listed.output + json.dumps(held)
    assert asked("principals", "revoke", made)["key"]["revoked_at"]
    with pytest.raises(Unauthenticated):
        identified(seeded.path, made)
    wider = run("principals", "key", "Ada", "--scope", "write:turns")
    assert (wider.exit_code, "no more than its principal" in wider.stderr) == (exits.CALLER, True)


def test_principals_are_shown_changed_disabled_and_enabled(seeded: Seeded, run: Run, asked: Asked) -> None:
    asked("principals", "add", "Root", "--role", "admin")
    refused = run("principals", "disable", "Root")
    assert (refused.exit_code, "last admin" in refused.stderr) == (exits.CALLER, True)
    asked("principals", "add", "Other", "--role", "admin", "--kind", "service")
    assert asked("principals", "disable", "Root")["principal"]["status"] == "disabled"
    assert asked("principals", "enable", "Root")["principal"]["status"] == "active"
    assert asked("principals", "change", "Other", "--role", "viewer")["principal"]["roles"] == ["viewer"]
    assert run("principals", "change", "Other").exit_code == exits.CALLER
    assert [each["name"] for each in asked("principals", "list")["principals"]] == ["Root", "Other"]
    shown = run("principals", "show", "Other")
    assert (shown.exit_code, "service" in shown.stdout) == (0, True)
    assert asked("principals", "list", "--tenant", "other")["principals"] == []
    assert run("principals", "show", "Other", "--tenant", "other").exit_code == exits.NOT_FOUND
    assert run("principals", "list").stdout.count("prn_") == 2


def test_forgetting_a_person_takes_their_sessions_along(seeded: Seeded, run: Run, asked: Asked) -> None:
    made = asked("principals", "add", "ana", "--role", "owner")["principal"]
    refused = run("principals", "forget", "ana", input="n\n")
    assert (refused.exit_code, "what is remembered of them" in refused.stderr) == (exits.CALLER, True)
    done = asked("principals", "forget", "ana", "--yes")["erased"]
    assert (done["principal"], done["sessions"]) == (made["id"], 1 + 1)
    with perdure.open(seeded.path) as db:
        with pytest.raises(NotFound):
            db.session(seeded.trip).info()
        assert db.session(seeded.sleeping).info().owner == "ben"
    (left,) = asked("principals", "list")["principals"]
    assert (left["id"], left["name"], left["status"]) == (made["id"], "", "cleared")
    assert "(forgotten)" in run("principals", "list").stdout


def test_forgetting_a_person_asks_about_the_clades_that_go_along(seeded: Seeded, run: Run, asked: Asked) -> None:
    asked("principals", "add", "ana", "--role", "owner")
    asked("principals", "add", "helper", "--kind", "agent", "--acting-for", "ana")
    for clade, owner in (("desk", "ana"), ("lab", "helper"), ("hall", "ben")):
        with perdure.open(seeded.path, actor=owner) as db:
            db.memory(clade=clade).share(users=["ben"])
    with perdure.open(seeded.path) as db:
        db.memory(clade="desk").add("what others keep here")
    refused = run("principals", "forget", "ana", input="n\n")
    told = " ".join(refused.stderr.split())
    assert "2 clades of theirs (desk, lab) with what others keep there, for good?" in told
    asked("principals", "forget", "ana", "--yes")
    with perdure.open(seeded.path) as db:
        assert [known.space for known in db.spaces()] == ["clade/hall"]


def test_whoever_is_not_there_is_answered_with_who_is(run: Run, asked: Asked) -> None:
    nobody = run("principals", "forget", "ana", "--yes")
    assert nobody.exit_code == exits.NOT_FOUND
    assert "no principal 'ana' here: tenant local has none" in nobody.stderr
    assert "perdure principals add ana" in nobody.stderr
    for name in ("anna", *(f"ben{number}" for number in range(6))):
        asked("principals", "add", name)
    for words in (("forget", "ana", "--yes"), ("show", "ana"), ("disable", "ana"), ("enable", "ana"), ("key", "ana")):
        missed = run("principals", *words)
        assert missed.exit_code == exits.NOT_FOUND
        assert "no principal 'ana' here" in missed.stderr
        assert "did you mean anna?" in missed.stderr
    far = run("principals", "forget", "zzz", "--yes").stderr
    assert "there are anna, ben0, ben1, ben2, ben3 and 2 more; perdure principals list shows all" in far
    assert "--tenant" in run("principals", "forget", "zzz", "--tenant", "other").stderr


def test_no_command_makes_a_store(run: Run, tmp_path: Path) -> None:
    missing = str(tmp_path / "missing.db")
    for words in (("principals", "add", "x"), ("principals", "list"), ("audit", "verify"), ("audit", "export")):
        assert run(*words, "--store", missing).exit_code == exits.WORLD
    assert list(tmp_path.glob("missing*")) == []
    assert "or make one with --create" in run("principals", "add", "x", "--store", missing).stderr
    assert "--create" not in run("principals", "list", "--store", missing).stderr, "only what can is offered"
    assert run("principals", "add", "x", "--store", missing, "--create").exit_code == 0


# ── audit ──


def test_every_administration_leaves_an_entry_that_says_what_was_done_to_whom(run: Run, asked: Asked) -> None:
    root = asked("principals", "add", "Root", "--role", "admin", "--key")
    id, key = root["principal"]["id"], root["key"]["id"]
    asked("principals", "add", "Other", "--role", "admin")
    asked("principals", "change", "Root", "--role", "viewer", "--role", "admin")
    second = asked("principals", "key", "Root")["key"]["id"]
    asked("principals", "disable", "Root")
    asked("principals", "enable", "Root")
    asked("principals", "revoke", key)
    asked("principals", "forget", "Root", "--yes")
    entries = asked("audit", "list", "--oldest-first")["entries"]
    other = entries[2]["thing"]
    done = [(each["what"], each["action"], each["thing"]) for each in entries]
    assert done == [
        ("add_principal", "create:principals", id),
        ("add_key", "create:keys", key),
        ("add_principal", "create:principals", other),
        ("change_principal", "write:principals", id),
        ("add_key", "create:keys", second),
        ("disable_principal", "write:principals", id),
        ("enable_principal", "write:principals", id),
        ("revoke_key", "delete:keys", key),
        ("erase_person", "delete:people", id),
    ]
    assert {each["actor"] for each in entries} == {"operator"}
    assert "Root" not in json.dumps(entries)
    refused = run("principals", "disable", "Other")
    assert refused.exit_code == exits.CALLER
    assert len(asked("audit", "list")["entries"]) == len(entries), "what was not done is not said to be"


def test_names_stand_beside_ids_and_are_taken_for_them(seeded: Seeded, run: Run, asked: Asked) -> None:
    ana = asked("principals", "add", "ana", "--role", "owner", "--key")
    house = tenants(seeded.path)
    for actor in (ana["principal"]["id"], "prn_gone"):
        drive(house.auditing.note("local", AuditEntry(what="asked", actor=actor, at=house.ambient.now())))
    drive(house.close())
    found = asked("audit", "list", "--actor", "ana")["entries"]
    assert [(each["actor"], each["name"]) for each in found] == [(ana["principal"]["id"], "ana")]
    assert "name" not in asked("audit", "list", "--actor", "prn_gone")["entries"][0]
    assert len(asked("audit", "list", "--actor", "operator")["entries"]) == 2
    for said in (run("audit", "list"), run("principals", "keys")):
        assert ("ana" in said.stdout, ana["principal"]["id"] in said.stdout) == (True, True)
    (held,) = asked("principals", "keys")["keys"]
    assert (held["principal"], held["name"]) == (ana["principal"]["id"], "ana")


def test_the_list_says_where_attempts_of_strangers_are_when_there_are_any(seeded: Seeded, run: Run) -> None:
    assert "_strangers" not in run("audit", "list").output
    house = tenants(seeded.path)
    drive(house.auditing.note("_strangers", AuditEntry(what="list_sessions", outcome="denied", at=1)))
    drive(house.close())
    assert "--tenant _strangers" in run("audit", "list").output
    there = run("audit", "list", "--tenant", "_strangers")
    assert ("list_sessions" in there.stdout, "--tenant" in there.output) == (True, False)


@pytest.fixture
def audited(seeded: Seeded) -> str:
    async def write() -> None:
        house = tenants(seeded.path)
        for number in range(5):
            outcome: Any = ("allowed", "denied")[number % 2]
            entry = AuditEntry(what=f"w{number}", actor="prn_x", outcome=outcome, at=house.ambient.now())
            await house.auditing.note("local", entry)
        await house.close()

    asyncio.run(write())
    return seeded.path


def test_the_log_is_shown_newest_first_and_by_filter(audited: str, run: Run, asked: Asked) -> None:
    assert [each["what"] for each in asked("audit", "list")["entries"]] == ["w4", "w3", "w2", "w1", "w0"]
    page = asked("audit", "list", "--limit", "2", "--oldest-first")
    assert [each["what"] for each in page["entries"]] == ["w0", "w1"]
    following = asked("audit", "list", "--limit", "2", "--oldest-first", "--cursor", str(page["cursor"]))
    assert [each["what"] for each in following["entries"]] == ["w2", "w3"]
    assert len(asked("audit", "list", "--outcome", "denied", "--since", "1h")["entries"]) == 2
    assert asked("audit", "list", "--actor", "prn_y")["entries"] == []
    said = run("audit", "list", "--limit", "1")
    assert ("w4" in said.stdout, "--cursor" in said.stdout) == (True, True)


def test_verify_finds_an_edited_byte_and_says_where(audited: str, run: Run, asked: Asked) -> None:
    assert asked("audit", "verify")["ok"]
    session = raw(named("_perdure", "audit:local"))
    where = "WHERE first = 4 AND session = (SELECT no FROM session WHERE session_id = ?)"
    with closing(apsw.Connection(audited)) as connection:
        ((body,),) = connection.execute(f"SELECT body FROM record {where}", (session,)).fetchall()
        edited = body[:-1] + bytes([body[-1] ^ 1])
        connection.execute(f"UPDATE record SET body = ? {where}", (edited, session))
    found = run("audit", "verify", "--json")
    assert found.exit_code == exits.WORLD
    problems = json.loads(found.stdout)["problems"]
    assert [4, 4] in [each["versions"] for each in problems]
    assert run("audit", "verify").exit_code == exits.WORLD


def test_an_export_is_json_lines_that_end_in_a_signature(audited: str, run: Run, tmp_path: Path) -> None:
    lines = [json.loads(line) for line in run("audit", "export").stdout.splitlines()]
    assert [line.get("perdure") for line in lines[-2:]] == ["end", "signature"]
    assert lines[-1]["digest"] == lines[-2]["digest"]
    file = tmp_path / "audit.jsonl"
    told = run("audit", "export", "-o", str(file), "--json")
    assert json.loads(told.stdout)["lines"] == len(lines) == len(file.read_text("utf-8").splitlines())
    checked = run("audit", "verify", "--export", str(file), "--json")
    assert json.loads(checked.stdout) | {"ok": True, "genuine": True} == json.loads(checked.stdout)
    assert run("audit", "export", "--json").exit_code == exits.CALLER
    assert run("audit", "export", "--tenant", "other").exit_code == exits.NOT_FOUND


def test_an_export_that_was_changed_cut_or_stripped_of_its_signature_is_damaged_data(
    audited: str, run: Run, tmp_path: Path
) -> None:
    file = tmp_path / "audit.jsonl"
    assert run("audit", "export", "-o", str(file)).exit_code == 0
    whole = file.read_bytes()
    lines = whole.splitlines(keepends=True)
    changed = whole.replace(b'"what":"w1"', b'"what":"w9"')
    for content in (changed, b"".join(lines[:4]), b"".join(lines[1:]), whole[:-9], b"", b"words\n"):
        file.write_bytes(content)
        found = run("audit", "verify", "--export", str(file))
        assert (found.exit_code, "audit log" in found.stderr) == (exits.WORLD, True), found.output
        assert "session" not in found.stderr
        told = run("audit", "verify", "--export", str(file), "--json")
        assert (told.exit_code, json.loads(told.stdout)["error"]["code"]) == (exits.WORLD, "tampered")
    file.write_bytes(b"".join(lines[:-1]))
    found = run("audit", "verify", "--export", str(file))
    assert (found.exit_code, "its signature is missing" in found.stdout) == (exits.WORLD, True), found.output
    told = json.loads(run("audit", "verify", "--export", str(file), "--json").stdout)
    assert (told["ok"], told["signed"], told["genuine"]) == (False, False, False)


def test_a_store_in_the_clear_signs_no_export_and_misses_no_signature(run: Run, tmp_path: Path) -> None:
    store, file = str(tmp_path / "clear.db"), str(tmp_path / "clear.jsonl")
    perdure.open(store, seal=False).close()
    assert run("principals", "add", "Ada", "--store", store).exit_code == 0
    assert "no signed heads: not sealed" in run("audit", "verify", "--store", store).stdout
    assert run("audit", "export", "-o", file, "--store", store).exit_code == 0
    checked = run("audit", "verify", "--export", file, "--store", store)
    assert (checked.exit_code, "no signature checked" in checked.stdout) == (0, True), checked.output


def test_a_tenant_without_an_audit_log_is_not_found_and_a_sealed_store_is_never_said_not_to_be(
    audited: str, run: Run
) -> None:
    found = run("audit", "verify", "--tenant", "nobody")
    assert (found.exit_code, found.stdout) == (exits.NOT_FOUND, "")
    assert "tenant nobody has no audit log here" in found.stderr
    told = run("audit", "verify", "--tenant", "nobody", "--json")
    assert (told.exit_code, json.loads(told.stdout)["error"]["code"]) == (exits.NOT_FOUND, "not_found")


def test_a_log_that_nobody_signed_for_yet_is_not_said_to_be_in_the_clear(seeded: Seeded, run: Run) -> None:
    house = tenants(seeded.path)
    drive(house.auditing.note("fresh", AuditEntry(what="asked", at=1)))
    drive(house.store.close())
    found = run("audit", "verify", "--tenant", "fresh")
    assert (found.exit_code, "not signed for yet" in found.stdout) == (0, True), found.output
