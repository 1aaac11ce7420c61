"""The directory decides: nobody is given more than the giver has, and what does not count looks all alike."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.core.access import changes, handles
from perdure.core.access import directory as d
from perdure.core.access.book import EMPTY, Book, Status, fold, fold_all
from perdure.core.access.changes import (
    AnyEntry,
    KeyAdded,
    KeyRevoked,
    PolicySet,
    PrincipalAdded,
    PrincipalChanged,
    PrincipalCleared,
    PrincipalDisabled,
    PrincipalEnabled,
    PrincipalErasing,
    PrincipalForgotten,
    SecretAdded,
    WebhookAdded,
    WebhookRemoved,
)
from perdure.core.access.given import must_be_roles
from perdure.core.access.roles import ACTIONS, Actor, Role, scoped
from perdure.core.access.rules import FieldRule, Policy, Rule
from perdure.core.errors import (
    AlreadyExists,
    Denied,
    Invalid,
    LastAdmin,
    NotFound,
    PerdureError,
    Refused,
    Unauthenticated,
    UnknownKind,
)

NOW = 1_000
HANDLE = handles.made(bytes(range(48)))


def principal(id: str, *roles: Role, tenant: str = "acme", **more: Any) -> PrincipalAdded:
    return PrincipalAdded(id=id, tenant=tenant, name=more.pop("name", f"name of {id}"), roles=roles, **more)


def key(id: str, whose: str, **more: Any) -> KeyAdded:
    tenant = more.pop("tenant", "acme")
    return KeyAdded(id=id, tenant=tenant, principal=whose, hash=handles.hashed(id), at=NOW, **more)


ROOT = principal("root", Role.ADMIN)
ADA = principal("ada", Role.OWNER, Role.VIEWER, scopes=("read:*", "write:turns"))
SPY = principal("spy", Role.ADMIN, tenant="rival")
BOOK = fold(EMPTY, ROOT, ADA, SPY)
OPEN = fold(BOOK, KeyAdded(id=HANDLE.id, tenant="acme", principal="ada", hash=handles.hashed(HANDLE.secret)))


def acting(id: str, book: Book = BOOK, **more: Any) -> Actor:
    found = d.actor_of(book.principals[id])
    return Actor(**{name: getattr(found, name) for name in Actor.__struct_fields__} | more)


# ── keys come in ──


def test_a_key_is_told_by_its_shape_and_carries_256_random_bits() -> None:
    assert handles.parsed(HANDLE.spelled) == HANDLE
    assert (len(HANDLE.id), len(HANDLE.secret)) == (22, 43)
    assert handles.made(b"\xff" * 48) != handles.made(b"\xff" * 47 + b"\xfe")
    assert HANDLE.secret not in repr(HANDLE)


@given(st.binary(min_size=48, max_size=48))
def test_any_random_bytes_make_a_key_that_reads_back(chance: bytes) -> None:
    made = handles.made(chance)
    assert handles.parsed(made.spelled) == made


@given(st.one_of(st.text(), st.none(), st.binary(), st.integers()))
def test_whatever_is_no_key_is_refused_as_any_other(given: Any) -> None:
    with pytest.raises(Unauthenticated):
        d.identify(OPEN, given, NOW)


def test_a_key_identifies_its_principal() -> None:
    found = d.identify(OPEN, HANDLE.spelled, NOW)
    assert (found.tenant, found.principal, found.name, found.credential) == ("acme", "ada", "name of ada", HANDLE.id)
    assert found.roles == {Role.OWNER, Role.VIEWER}


def test_unknown_wrong_revoked_expired_and_disabled_are_refused_in_the_same_words() -> None:
    added = KeyAdded(id=HANDLE.id, tenant="acme", principal="ada", hash=handles.hashed(HANDLE.secret), expires_at=NOW)
    wrong = f"pdk_{HANDLE.id}_{'0' * 43}"
    cases = [
        (BOOK, HANDLE.spelled),
        (OPEN, wrong),
        (fold(OPEN, KeyRevoked(id=HANDLE.id, at=1)), HANDLE.spelled),
        (fold(BOOK, added), HANDLE.spelled),
        (fold(OPEN, PrincipalDisabled(id="ada")), HANDLE.spelled),
        (fold(OPEN, PrincipalErasing(id="ada")), HANDLE.spelled),
        (fold(OPEN, PrincipalForgotten(id="ada", tenant="acme")), HANDLE.spelled),
        (OPEN, "nonsense"),
    ]
    told = set()
    for book, spelled in cases:
        with pytest.raises(Unauthenticated) as refusal:
            d.identify(book, spelled, NOW)
        told.add((type(refusal.value), refusal.value.message, str(refusal.value.fields)))
    assert len(told) == 1
    assert d.identify(fold(BOOK, added), HANDLE.spelled, NOW - 1).principal == "ada"


def test_a_refusal_hashes_and_compares_whatever_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[tuple[int, int]] = []
    real = d.hmac.compare_digest
    monkeypatch.setattr(d.hmac, "compare_digest", lambda a, b: compared.append((len(a), len(b))) or real(a, b))
    for spelled in ("", "pdk_x", f"pdk_{HANDLE.id}_{'0' * 43}", f"pdk_{'z' * 22}_{'0' * 43}"):
        with pytest.raises(Unauthenticated):
            d.identify(OPEN, spelled, NOW)
    assert compared == [(32, 32)] * 4


def test_a_key_is_good_for_no_more_than_its_principal_has_by_now() -> None:
    narrow = key(HANDLE.id, "ada", scopes=("read:turns", "write:turns"), roles=(Role.OWNER,))
    book = fold(BOOK, changes.msgspec.structs.replace(narrow, hash=handles.hashed(HANDLE.secret)))
    assert d.identify(book, HANDLE.spelled, NOW).roles == {Role.OWNER}
    less = fold(book, PrincipalChanged(id="ada", roles=(Role.VIEWER,), scopes=("read:*",)))
    found = d.identify(less, HANDLE.spelled, NOW)
    assert (found.roles, found.scopes) == (frozenset(), ("read:turns",))


# ── granting ──


def test_only_an_admin_of_the_tenant_makes_principals() -> None:
    new = principal("new")
    assert d.decide_add_principal(BOOK, new, acting("root")) == (new,)
    assert d.decide_add_principal(BOOK, new, None) == (new,)
    for by in (acting("ada"), acting("spy"), acting("root", session="s"), acting("root", roles=frozenset())):
        with pytest.raises(Denied):
            d.decide_add_principal(BOOK, new, by)


def test_an_admin_who_is_none_any_more_decides_nothing() -> None:
    by = acting("root")
    other = principal("other", Role.ADMIN)
    for entry in (PrincipalDisabled(id="root"), PrincipalChanged(id="root", roles=())):
        with pytest.raises(Denied):
            d.decide_add_principal(fold(BOOK, other, entry), principal("new"), by)


def test_an_admin_of_another_tenant_finds_nobody_here() -> None:
    spy = acting("spy")
    for id in ("ada", "nobody"):
        with pytest.raises(NotFound) as refusal:
            d.decide_disable(BOOK, "rival", PrincipalDisabled(id=id), spy)
        assert refusal.value.message == f"no principal {id!r} here; list those there are"
    with pytest.raises(Denied):
        d.decide_disable(BOOK, "acme", PrincipalDisabled(id="ada"), spy)
    with pytest.raises(NotFound):
        d.decide_revoke_key(OPEN, "rival", KeyRevoked(id=HANDLE.id), spy)
    with pytest.raises(NotFound):
        d.decide_add_key(BOOK, key("k", "ada", tenant="rival"), spy)


def test_a_key_exceeds_neither_its_principal_nor_its_giver() -> None:
    assert d.decide_add_key(BOOK, key("k", "ada", scopes=("read:turns",)), acting("ada"))
    assert d.decide_add_key(BOOK, key("k", "ada", scopes=ADA.scopes), acting("root"))
    for more in ({"scopes": ("*",)}, {"scopes": ("read:turns",), "roles": (Role.ADMIN,)}):
        for by in (None, acting("ada"), acting("root")):
            with pytest.raises(Denied):
                d.decide_add_key(BOOK, key("k", "ada", **more), by)
    narrow = acting("ada", scopes=("read:turns",))
    with pytest.raises(Denied):
        d.decide_add_key(BOOK, key("k", "ada", scopes=("read:*",)), narrow)
    for stranger in (acting("spy"), acting("ada", session="s")):
        with pytest.raises(Denied):
            d.decide_add_key(BOOK, key("k", "ada", scopes=("read:turns",)), stranger)


def test_an_admin_with_a_narrow_key_gives_nothing_wider() -> None:
    narrow = acting("root", scopes=("create:principals", "read:*"))
    assert d.decide_add_principal(BOOK, principal("new", scopes=("read:turns",)), narrow)
    with pytest.raises(Denied):
        d.decide_add_principal(BOOK, principal("new", scopes=("*",)), narrow)
    with pytest.raises(Denied):
        d.decide_change_principal(BOOK, "acme", PrincipalChanged(id="ada", roles=(Role.ADMIN,)), narrow)
    out = fold(BOOK, PrincipalDisabled(id="ada"))
    with pytest.raises(Denied):
        d.decide_enable(out, "acme", PrincipalEnabled(id="ada"), narrow)


SCOPES = st.lists(st.sampled_from(["*", "read:*", "*:turns", *sorted(ACTIONS)[:40]]), max_size=4).map(tuple)


@given(SCOPES, SCOPES, SCOPES)
def test_no_chain_of_grants_reaches_further_than_its_beginning(has: Any, holds: Any, asks: Any) -> None:
    book = fold(EMPTY, principal("p", Role.OWNER, scopes=has))
    by = Actor(tenant="acme", principal="p", name="p", roles=frozenset({Role.OWNER}), scopes=holds)
    try:
        (entry,) = d.decide_add_key(book, key("k", "p", scopes=asks), by)
    except Denied:
        assert not scoped(asks) <= scoped(has) & scoped(holds)
        return
    found = d.actor_of(book.principals["p"], fold(book, entry).keys["k"])
    assert scoped(found.scopes) <= scoped(has) & scoped(holds)


def test_names_are_taken_once_a_tenant() -> None:
    with pytest.raises(AlreadyExists):
        d.decide_add_principal(BOOK, principal("new", name="name of ada"), None)
    with pytest.raises(AlreadyExists):
        d.decide_add_principal(BOOK, principal("new", name="ada"), None)  # would be mistaken for that one's id
    assert d.decide_add_principal(BOOK, principal("new", name="name of ada", tenant="rival"), None)


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": ""},
        {"name": "x" * 257},
        {"name": " x"},
        {"name": "a\x00b"},
        {"name": "\ud800"},
        {"name": 7},
        {"tenant": "_perdure"},
        {"tenant": ""},
        {"kind": "ghost"},
        {"scopes": ("read",)},
        {"scopes": ("*",) * 257},
        {"scopes": "read:turns"},
        {"task": ""},
        {"acting_for": "\n"},
    ],
    ids=repr,
)
def test_wrong_values_are_invalid(wrong: dict[str, Any]) -> None:
    with pytest.raises(Invalid):
        d.decide_add_principal(BOOK, principal("new", **wrong), None)


def test_roles_are_known_ones() -> None:
    assert must_be_roles(["viewer", Role.ADMIN, Role.VIEWER]) == (Role.ADMIN, Role.VIEWER)
    for wrong in (["king"], [7], "admin2"):
        with pytest.raises(Invalid):
            must_be_roles(wrong)


def test_a_key_expires_in_the_future() -> None:
    scopes = ADA.scopes
    for wrong in (NOW, 0, -5, 1.5, "soon"):
        with pytest.raises(Invalid):
            d.decide_add_key(BOOK, key("k", "ada", scopes=scopes, expires_at=wrong), None)
    assert d.decide_add_key(BOOK, key("k", "ada", scopes=scopes, expires_at=NOW + 1), None)


def test_a_principal_has_so_many_keys_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(d, "MOST_KEYS", 2)
    book = fold(BOOK, key("one", "ada"), key("two", "ada"))
    with pytest.raises(Refused):
        d.decide_add_key(book, key("k", "ada", scopes=("read:*",)), None)
    assert d.decide_add_key(fold(book, KeyRevoked(id="one")), key("k", "ada", scopes=("read:*",)), None)


# ── the last admin ──


def test_the_last_admin_stays_unless_forced() -> None:
    out, less = PrincipalDisabled(id="root"), PrincipalChanged(id="root", roles=(Role.VIEWER,))
    for force in (False, True):
        for call in (
            lambda book, force=force: d.decide_disable(book, "acme", out, None, force=force),
            lambda book, force=force: d.decide_change_principal(book, "acme", less, None, force=force),
        ):
            assert call(fold(BOOK, principal("other", Role.ADMIN)))
            if force:
                assert call(BOOK)
            else:
                with pytest.raises(LastAdmin):
                    call(BOOK)
    with pytest.raises(LastAdmin):
        d.decide_erasing(BOOK, "acme", PrincipalErasing(id="root"), None)
    disabled = fold(BOOK, principal("other", Role.ADMIN), PrincipalDisabled(id="other"))
    with pytest.raises(LastAdmin):
        d.decide_disable(disabled, "acme", out, None)


def test_doing_it_again_changes_nothing() -> None:
    out = fold(BOOK, PrincipalDisabled(id="ada"), KeyRevoked(id=HANDLE.id))
    assert d.decide_disable(out, "acme", PrincipalDisabled(id="ada"), None) == ()
    assert d.decide_enable(BOOK, "acme", PrincipalEnabled(id="ada"), None) == ()
    assert d.decide_change_principal(BOOK, "acme", PrincipalChanged(id="ada", roles=ADA.roles), None) == ()
    revoked = fold(OPEN, KeyRevoked(id=HANDLE.id, at=5))
    assert d.decide_revoke_key(revoked, "acme", KeyRevoked(id=HANDLE.id), None) == ()
    assert revoked.keys[HANDLE.id].revoked_at == 5


def test_principals_take_back_their_own_keys_and_no_others() -> None:
    taken = KeyRevoked(id=HANDLE.id)
    assert d.decide_revoke_key(OPEN, "acme", taken, acting("ada")) == (taken,)
    other = fold(OPEN, principal("bob"))
    for by in (acting("bob", other), acting("spy"), acting("ada", session="s")):
        with pytest.raises(Denied):
            d.decide_revoke_key(other, "acme", taken, by)


# ── policies, webhooks, secrets ──


def test_policies_are_an_admins_to_set() -> None:
    policy = Policy(rules=(Rule(effect="deny", actions=("read:log",)),))
    entry = PolicySet(tenant="acme", policy=policy)
    assert d.decide_set_policy(BOOK, entry, acting("root")) == (entry,)
    assert d.decide_set_policy(fold(BOOK, entry), entry, acting("root")) == ()
    for by in (acting("ada"), acting("spy")):
        with pytest.raises(Denied):
            d.decide_set_policy(BOOK, entry, by)
    with pytest.raises(Invalid):
        d.decide_set_policy(BOOK, PolicySet(tenant="acme", policy={}), None)  # type: ignore[arg-type]


def test_a_policy_names_fields_that_sessions_have_and_one_from_before_still_counts() -> None:
    for path in ("salary", "var.salary", "turn", "\\*", "scratchpads"):
        wrong = PolicySet(tenant="acme", policy=Policy(fields=(FieldRule(path=path, read=(Role.OWNER,)),)))
        with pytest.raises(Invalid, match="title, tags, metadata, config, vars, scratchpad, turns"):
            d.decide_set_policy(BOOK, wrong, acting("root"))
        known = changes.from_document(changes.to_document(wrong))
        assert fold(BOOK, known).policies["acme"] == wrong.policy
    right = Policy(fields=tuple(FieldRule(path=path) for path in ("vars.a", "*.a", "*", "turns", "conversation")))
    assert d.decide_set_policy(BOOK, PolicySet(tenant="acme", policy=right), acting("root"))


def test_webhooks_are_added_once_and_removed_by_their_own_tenant() -> None:
    entry = WebhookAdded(id="w", tenant="acme", url="https://a.example", secret=b"s" * 32, events=("*",))
    assert d.decide_add_webhook(BOOK, entry, acting("root")) == (entry,)
    book = fold(BOOK, entry)
    with pytest.raises(AlreadyExists):
        d.decide_add_webhook(book, entry, acting("root"))
    with pytest.raises(NotFound):
        d.decide_remove_webhook(book, "rival", WebhookRemoved(id="w"), acting("spy"))
    assert fold(book, *d.decide_remove_webhook(book, "acme", WebhookRemoved(id="w"), acting("root"))).hooks == {}
    for wrong in ((), ("x" * 65,), ("",), ("a",) * 65):
        with pytest.raises(Invalid):
            d.decide_add_webhook(BOOK, changes.msgspec.structs.replace(entry, events=wrong), None)


def test_a_rotated_secret_leaves_the_one_before_it_known() -> None:
    book = EMPTY
    for number in range(3):
        entry = SecretAdded(id=f"s{number}", name="tokens", secret=bytes([number]) * 32)
        book = fold(book, *d.decide_secret(book, entry, rotate=True))
    assert [each.id for each in book.secrets["tokens"]] == ["s2", "s1"]
    assert d.decide_secret(book, SecretAdded(id="x", name="tokens", secret=bytes(32)), rotate=False) == ()
    with pytest.raises(Invalid):
        d.decide_secret(book, SecretAdded(id="x", name="other", secret=b"short"), rotate=False)


def test_nothing_shows_a_secret() -> None:
    secret = b"PLAINTEXT" * 4
    entries: list[AnyEntry] = [
        WebhookAdded(id="w", tenant="acme", url="https://a.example/?token=PLAINTEXT", secret=secret),
        SecretAdded(id="s", name="tokens", secret=secret),
    ]
    book = fold_all(OPEN, entries)
    shown = repr([*entries, book, *book.hooks.values(), *book.secrets.values(), *book.keys.values()])
    assert "PLAINTEXT" not in shown
    assert repr(handles.hashed(HANDLE.secret)) not in shown


# ── folding ──


def test_a_forgotten_principal_leaves_its_id_and_nothing_else() -> None:
    book = fold(OPEN, PrincipalErasing(id="ada", at=3), PrincipalForgotten(id="ada", tenant="acme"))
    known = book.principals["ada"]
    assert (known.name, known.roles, known.status) == ("", frozenset(), Status.FORGOTTEN)
    assert not any(each.principal == "ada" for each in book.keys.values())
    assert "name of ada" not in str(book.names)
    assert d.decide_add_principal(book, principal("next", name="name of ada"), None)


def test_a_log_without_the_entries_that_named_somebody_folds_to_the_same() -> None:
    rest = (PrincipalErasing(id="ada"), PrincipalForgotten(id="ada", tenant="acme"), PrincipalCleared(id="ada"))
    whole = fold(EMPTY, ROOT, ADA, key("k", "ada"), PrincipalChanged(id="ada", roles=()), *rest)
    assert fold(EMPTY, ROOT, PrincipalChanged(id="ada", roles=()), *rest) == whole


def test_whoever_is_being_erased_cannot_be_changed_back() -> None:
    book = fold(BOOK, PrincipalErasing(id="ada"))
    for call in (
        lambda: d.decide_enable(book, "acme", PrincipalEnabled(id="ada"), None),
        lambda: d.decide_disable(book, "acme", PrincipalDisabled(id="ada"), None),
        lambda: d.decide_change_principal(book, "acme", PrincipalChanged(id="ada", roles=()), None),
    ):
        with pytest.raises(NotFound):
            call()
    with pytest.raises(Refused):
        d.decide_forgotten(BOOK, "acme", PrincipalForgotten(id="ada", tenant="acme"))
    assert d.decide_erasing(book, "acme", PrincipalErasing(id="ada"), None) == ()


IDS = st.sampled_from(["a", "b", "c"])
ENTRIES = st.one_of(
    st.builds(PrincipalAdded, id=IDS, tenant=st.just("t"), name=IDS, roles=st.just((Role.ADMIN,))),
    st.builds(PrincipalChanged, id=IDS, scopes=st.sampled_from([None, ("read:*",)])),
    st.builds(PrincipalDisabled, id=IDS),
    st.builds(PrincipalEnabled, id=IDS),
    st.builds(PrincipalErasing, id=IDS, at=st.integers(0, 9)),
    st.builds(PrincipalForgotten, id=IDS, tenant=st.just("t")),
    st.builds(PrincipalCleared, id=IDS),
    st.builds(KeyAdded, id=IDS, tenant=st.just("t"), principal=IDS, hash=st.binary(min_size=32, max_size=32)),
    st.builds(KeyRevoked, id=IDS, at=st.integers(0, 9)),
    st.builds(PolicySet, tenant=IDS, policy=st.just(Policy(rules=(Rule(effect="deny"),)))),
    st.builds(WebhookAdded, id=IDS, tenant=IDS, url=st.text(), secret=st.binary(), events=st.just(("*",))),
    st.builds(WebhookRemoved, id=IDS),
    st.builds(SecretAdded, id=IDS, name=IDS, secret=st.binary()),
)


@given(st.lists(ENTRIES, max_size=20))
def test_folding_one_by_one_or_at_once_from_documents_is_the_same(entries: list[AnyEntry]) -> None:
    book = EMPTY
    for entry in entries:
        book = fold(book, entry)
    assert Book() == EMPTY
    read = [changes.from_document(changes.to_document(entry)) for entry in entries]
    assert read == entries
    assert fold_all(EMPTY, read) == book


@given(st.lists(ENTRIES, max_size=20), ENTRIES)
def test_folding_leaves_the_book_it_came_from_alone(entries: list[AnyEntry], last: AnyEntry) -> None:
    book = fold_all(EMPTY, entries)
    again = fold_all(EMPTY, entries)
    fold(book, last)
    assert book == again


def test_an_entry_of_a_newer_perdure_is_refused_not_guessed() -> None:
    for document in ({"entry": "principal_locked", "id": "a"}, {}, None, {"entry": "key_added", "id": 7}):
        with pytest.raises(UnknownKind):
            changes.from_document(document)
    assert issubclass(UnknownKind, PerdureError)
