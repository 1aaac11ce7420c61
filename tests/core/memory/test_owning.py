"""Whose vault is whose, by its name."""

from unicodedata import normalize

import pytest

from perdure.core.memory.owning import is_vault_of_any, vault_of
from perdure.core.memory.parts import LETHE, Space, vault


@pytest.mark.parametrize("name", ["ana", "Ana Maria", "ana@x.org", "a/b:c%d", "José", "x" * 80, "é" * 70])
@pytest.mark.parametrize("agent", ["", "critic", "c:d/e", "y" * 90])
def test_the_vaults_that_are_served_to_somebody_are_theirs_however_they_are_called(name: str, agent: str) -> None:
    space = vault_of(name, agent)
    assert is_vault_of_any(space, ["somebody", name])
    assert not is_vault_of_any(space, ["somebody", "", "an"])
    for form in (name.upper(), normalize("NFD", name)):
        if len(name) < 60:
            assert is_vault_of_any(vault_of(form, agent), [name])


def test_nobody_else_s_vault_is_theirs() -> None:
    assert is_vault_of_any(vault("ana:critic"), ["ANA"])
    assert is_vault_of_any(vault("a/b".replace("/", "%2F")), ["a/b"])
    for other in (vault("anabel"), vault("ana%3Acritic"), vault("critic:ana"), Space("clade", "ana"), LETHE):
        assert not is_vault_of_any(other, ["ana"]), other
