"""The contract cannot be muted: overriding one of its claims is refused, adding to them is not."""

import ast
import inspect
import subprocess
import sys

import pytest

from perdure.testing import StoreContract
from perdure.testing.contract.suite import CLAIMS

ONE = "test_a_stale_append_changes_nothing"


def test_a_subclass_cannot_override_a_claim() -> None:
    with pytest.raises(TypeError, match=ONE):
        type("Muted", (StoreContract,), {ONE: lambda self: None})


def test_a_subclass_cannot_blank_a_claim() -> None:
    with pytest.raises(TypeError, match=ONE):
        type("Muted", (StoreContract,), {ONE: None})


def test_a_subclass_cannot_override_a_claim_through_another_base() -> None:
    mute = type("Mute", (), {ONE: None})
    with pytest.raises(TypeError, match="Mute overrides"):
        type("Muted", (mute, StoreContract), {})


def test_a_grandchild_cannot_override_a_claim_either() -> None:
    child = type("Child", (StoreContract,), {})
    with pytest.raises(TypeError, match=ONE):
        type("Grandchild", (child,), {ONE: None})


def test_a_subclass_may_add_tests_and_bring_its_store() -> None:
    added = type("Mine", (StoreContract,), {"test_mine": None, "store": None, "durable": False})
    assert issubclass(added, StoreContract)


def test_the_contract_makes_enough_claims_and_all_are_coroutines() -> None:
    assert len(CLAIMS) >= 60
    assert all(inspect.iscoroutinefunction(getattr(StoreContract, claim)) for claim in CLAIMS)


def test_no_claim_hides_another_of_the_same_name() -> None:
    bases = [base for base in StoreContract.__mro__ if base.__module__.startswith("perdure.testing.contract")]
    names = []
    for base in bases:
        (body,) = ast.parse(inspect.getsource(base)).body
        assert isinstance(body, ast.ClassDef)
        names += [node.name for node in body.body if isinstance(node, ast.AsyncFunctionDef) and "test_" in node.name]
    assert sorted(names) == sorted(CLAIMS)


def test_durability_is_claimed_unless_a_store_declares_otherwise() -> None:
    assert StoreContract.durable is True


def test_the_rest_of_the_package_needs_no_pytest() -> None:
    program = (
        "import sys, perdure.testing as t; t.Builder(t.FixedAmbient()).create(); sys.exit('pytest' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_an_unknown_name_is_an_attribute_error() -> None:
    import perdure.testing

    with pytest.raises(AttributeError):
        perdure.testing.nothing  # noqa: B018 - the access is what is tested
