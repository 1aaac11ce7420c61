"""What every vault promises: in RAM, in a file, in PostgreSQL."""

import pytest

from perdure.core.errors import AlreadyExists
from perdure.ports.vault import Count, Entry, GivesMany, KeepsHeads, SignedHead, Vault
from perdure.sealing.masters import HeldKeys
from perdure.sealing.sqlvault import SqlVault
from perdure.sealing.wrapping import INDEX_NAME, index_entry, proof_entry, rewrapped, salt_entry, secret_of
from tests.sealing.conftest import AMBIENT


@pytest.fixture
def begun(vault: Vault, masters: HeldKeys) -> Vault:
    first = masters.current()
    vault.begin((proof_entry(masters, first, AMBIENT), index_entry(masters, first, AMBIENT)))
    return vault


def salts(masters: HeldKeys, count: int) -> list[Entry]:
    return [salt_entry(masters.current(), AMBIENT) for _ in range(count)]


def test_a_new_vault_is_empty(vault: Vault) -> None:
    assert vault.current() is None
    assert (vault.proofs(), vault.page(b"", 10), vault.census()) == ((), (), ())
    assert vault.get(b"x" * 16) is None


def test_whoever_begins_first_decides(vault: Vault) -> None:
    one, two = HeldKeys({"one": b"1" * 32}, "here"), HeldKeys({"two": b"2" * 32}, "there")
    for masters in (one, two):
        first = masters.current()
        vault.begin((proof_entry(masters, first, AMBIENT), index_entry(masters, first, AMBIENT)))
    assert vault.current() == "one"
    index = vault.get(INDEX_NAME)
    assert index is not None
    assert index.master == "one"
    assert [proof.master for proof in vault.proofs()] == ["one"]


def test_what_was_added_is_found_as_it_was(begun: Vault, masters: HeldKeys) -> None:
    made = salts(masters, 5)
    assert begun.add(made)
    assert [begun.get(entry.name) for entry in made] == made


def test_many_are_found_together_as_they_are_one_by_one(begun: Vault, masters: HeldKeys) -> None:
    fresh = [salt_entry(masters.current(), AMBIENT) for _ in range(3)]
    assert begun.add(fresh)
    names = [entry.name for entry in fresh]
    if isinstance(begun, GivesMany):
        assert begun.several([*names, b"nobody's"]) == {entry.name: entry for entry in fresh}
        assert begun.several([]) == {}
    assert [begun.get(name) for name in names] == fresh  # and the vault can be asked again


def test_entries_under_another_key_than_the_current_one_are_not_taken(begun: Vault, masters: HeldKeys) -> None:
    made = [*salts(masters, 1), salt_entry("another", AMBIENT)]
    assert not begun.add(made)
    assert [begun.get(entry.name) for entry in made] == [None, None]


def test_a_name_is_given_once(begun: Vault, masters: HeldKeys) -> None:
    made, other = salts(masters, 2)
    begun.add([made])
    with pytest.raises(AlreadyExists):
        begun.add([other, Entry(made.name, made.kind, made.master, b"s" * 32, None, 1)])
    assert begun.get(made.name) == made
    assert begun.get(other.name) is None


def test_pages_go_through_all_entries_once(begun: Vault, masters: HeldKeys) -> None:
    made = salts(masters, 25)
    begun.add(made)
    seen: list[bytes] = []
    while page := begun.page(seen[-1] if seen else b"", 4):
        seen += [entry.name for entry in page]
    assert seen == sorted([entry.name for entry in made] + [INDEX_NAME])
    assert begun.page(b"", 100, besides=masters.current()) == ()


def test_a_replaced_entry_stands_for_the_same_secret(begun: Vault, masters: HeldKeys) -> None:
    both = HeldKeys({masters.current(): b"", "new": b"n" * 32}, "test")
    both._keys = {**masters._keys, "new": b"n" * 32}
    (made,) = salts(masters, 1)
    begun.add([made])
    assert begun.replace([(made, rewrapped(both, made, "new", AMBIENT))]) == 1
    found = begun.get(made.name)
    assert found is not None
    assert (found.master, found.salt != made.salt, found.made_at) == ("new", True, made.made_at)
    assert secret_of(both, found) == secret_of(both, made)


def test_an_entry_that_changed_or_went_meanwhile_is_not_replaced(begun: Vault, masters: HeldKeys) -> None:
    gone, changed = salts(masters, 2)
    begun.add([gone, changed])
    stale = Entry(changed.name, changed.kind, changed.master, b"s" * 32, None, changed.made_at)
    begun.destroy([gone.name])
    assert begun.replace([(gone, gone), (stale, stale)]) == 0
    assert begun.get(gone.name) is None
    assert begun.get(changed.name) == changed


def test_a_key_is_retired_once_nothing_is_under_it(begun: Vault, masters: HeldKeys) -> None:
    old = masters.current()
    new = HeldKeys({"new": b"n" * 32}, "test")
    both = HeldKeys({**masters._keys, "new": b"n" * 32}, "test")
    assert not begun.retire(old), "it is current"
    begun.turn(proof_entry(new, "new", AMBIENT))
    assert begun.current() == "new"
    assert not begun.retire(old), "the index is under it"
    index = begun.get(INDEX_NAME)
    assert index is not None
    begun.replace([(index, rewrapped(both, index, "new", AMBIENT))])
    assert begun.retire(old)
    assert [proof.master for proof in begun.proofs()] == ["new"]


def test_a_turn_keeps_the_proof_that_is_there(begun: Vault, masters: HeldKeys) -> None:
    (before,) = begun.proofs()
    begun.turn(proof_entry(masters, masters.current(), AMBIENT))
    assert begun.proofs() == (before,)


def test_what_is_condemned_belongs_to_the_store_that_condemned_it(begun: Vault, masters: HeldKeys) -> None:
    one, two, three = salts(masters, 3)
    begun.add([one, two, three])
    begun.condemn([one.name, two.name], "mine", 7)
    begun.condemn([three.name], "yours", 8)
    assert begun.condemned("mine") == {one.name: 7, two.name: 7}
    assert begun.get(one.name) == one, "condemned is not destroyed"
    assert begun.census() == (Count(master=masters.current(), salts=4, condemned=3),)
    begun.spare([one.name])
    assert begun.condemned("mine") == {two.name: 7}
    begun.destroy([two.name])
    assert begun.condemned("mine") == {}
    assert begun.condemned("yours") == {three.name: 8}


def test_what_was_destroyed_is_gone_and_destroying_it_again_is_harmless(begun: Vault, masters: HeldKeys) -> None:
    made = salts(masters, 3)
    begun.add(made)
    for _ in range(2):
        begun.destroy([made[0].name, made[2].name])
    assert [begun.get(entry.name) for entry in made] == [None, made[1], None]
    begun.condemn([made[0].name], "mine", 1)
    assert begun.condemned("mine") == {}


def test_nothing_shows_a_secret(begun: Vault, masters: HeldKeys) -> None:
    (made,) = salts(masters, 1)
    shown = f"{begun!r} {made!r} {masters!r} {begun.place}"
    assert made.salt.hex() not in shown
    assert repr(made.salt)[2:-1] not in shown
    for key in masters._keys.values():
        assert key.hex() not in shown
        assert repr(key)[2:-1] not in shown


def head_of(entry: Entry, version: int, store: str = "mine") -> SignedHead:
    return SignedHead(
        salt=entry.name,
        store=store,
        tenant="local",
        session=entry.name,
        version=version,
        digest=bytes(32),
        at=version,
        remark="é",
        mac=b"m" * 32,
    )


@pytest.fixture
def keeping(begun: Vault) -> KeepsHeads:
    assert isinstance(begun, KeepsHeads)
    return begun


def test_a_head_moves_forward_and_back_only_when_told(begun: Vault, keeping: KeepsHeads, masters: HeldKeys) -> None:
    (entry,) = salts(masters, 1)
    begun.add([entry])
    assert keeping.heads([entry.name]) == {}
    for version, kept, standing in ((5, 1, 5), (5, 0, 5), (4, 0, 5), (7, 1, 7)):
        assert keeping.keep_heads([head_of(entry, version)]) == kept
        assert keeping.heads([entry.name, b"x" * 16]) == {entry.name: head_of(entry, standing)}
    assert keeping.keep_heads([head_of(entry, 2)], back=True) == 1
    assert keeping.heads([entry.name]) == {entry.name: head_of(entry, 2)}
    keeping.drop_heads([entry.name])
    assert keeping.heads([entry.name]) == {}


def test_heads_are_listed_by_store_and_go_with_their_entries(
    begun: Vault, keeping: KeepsHeads, masters: HeldKeys
) -> None:
    made = sorted(salts(masters, 6), key=lambda entry: entry.name)
    begun.add(made)
    keeping.keep_heads([head_of(entry, 3) for entry in made[:5]])
    keeping.keep_heads([head_of(made[5], 3, "yours")])
    begun.destroy([made[1].name])
    begun.condemn([made[2].name], "mine", 1)
    left = [made[0].name, made[3].name, made[4].name]
    assert [head.salt for head in keeping.heads_of("mine", b"", 10)] == left
    assert [head.salt for head in keeping.heads_of("mine", left[0], 1)] == left[1:2]
    assert set(keeping.heads([entry.name for entry in made])) == {*left, made[5].name}
    begun.spare([made[2].name])
    assert len(keeping.heads_of("mine", b"", 10)) == 4, "spared, it shows again"
    assert keeping.keep_heads([head_of(made[1], 9)]) == 0, "what is destroyed gets no head"


def test_a_number_is_noted(keeping: KeepsHeads) -> None:
    assert keeping.noted("signed/mine/local") is None
    for number in (5, 1 << 50, 3):
        keeping.note("signed/mine/local", number)
        assert keeping.noted("signed/mine/local") == number


def test_a_vault_that_lacks_a_method_of_its_engine_is_not_made() -> None:
    class Lacking(SqlVault):
        def _disconnect(self) -> None:
            """Nothing is connected."""

    with pytest.raises(TypeError, match="_asking, _delete, _entry, _insert, _looking, _writing"):
        Lacking(read_only=True)  # type: ignore[abstract]
