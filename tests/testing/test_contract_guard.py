"""The contracts cannot be muted: overriding one of their claims is refused, adding to them is not."""

import ast
import inspect
import subprocess
import sys

import pytest

from perdure.testing import BlobContract, StoreContract
from perdure.testing.contract.suite import CLAIMS

CONTRACTS = {
    StoreContract: "test_a_stale_append_changes_nothing",
    BlobContract: "test_an_abandoned_upload_leaves_nothing",
}
each = pytest.mark.parametrize(("contract", "one"), CONTRACTS.items())


@each
def test_a_subclass_cannot_override_a_claim(contract: type, one: str) -> None:
    with pytest.raises(TypeError, match=one):
        type("Muted", (contract,), {one: lambda self: None})


@each
def test_a_subclass_cannot_blank_a_claim(contract: type, one: str) -> None:
    with pytest.raises(TypeError, match=one):
        type("Muted", (contract,), {one: None})


@each
def test_a_subclass_cannot_override_a_claim_through_another_base(contract: type, one: str) -> None:
    mute = type("Mute", (), {one: None})
    with pytest.raises(TypeError, match="Mute overrides"):
        type("Muted", (mute, contract), {})


@each
def test_a_grandchild_cannot_override_a_claim_either(contract: type, one: str) -> None:
    child = type("Child", (contract,), {})
    with pytest.raises(TypeError, match=one):
        type("Grandchild", (child,), {one: None})


@each
def test_a_subclass_may_add_tests_and_bring_its_store(contract: type, one: str) -> None:
    added = type("Mine", (contract,), {"test_mine": None, "store": None, "durable": False})
    assert one in dir(added)


@pytest.mark.parametrize(("contract", "enough"), [(StoreContract, 60), (BlobContract, 25)])
def test_a_contract_makes_enough_claims_and_all_are_coroutines(contract: type, enough: int) -> None:
    assert len(CLAIMS[contract]) >= enough
    assert all(inspect.iscoroutinefunction(getattr(contract, claim)) for claim in CLAIMS[contract])


@pytest.mark.parametrize("contract", CONTRACTS)
def test_no_claim_hides_another_of_the_same_name(contract: type) -> None:
    bases = [base for base in contract.__mro__ if base.__module__.startswith("perdure.testing.contract")]
    names = []
    for base in bases:
        (body,) = ast.parse(inspect.getsource(base)).body
        assert isinstance(body, ast.ClassDef)
        names += [node.name for node in body.body if isinstance(node, ast.AsyncFunctionDef) and "test_" in node.name]
    assert sorted(names) == sorted(CLAIMS[contract])


def test_durability_is_claimed_unless_a_store_declares_otherwise() -> None:
    assert StoreContract.durable is BlobContract.durable is True


def test_the_rest_of_the_package_needs_no_pytest() -> None:
    program = (
        "import sys, perdure.testing as t; t.Builder(t.FixedAmbient()).create(); sys.exit('pytest' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_an_unknown_name_is_an_attribute_error() -> None:
    import perdure.testing

    with pytest.raises(AttributeError):
        perdure.testing.nothing  # noqa: B018 - the access is what is tested
