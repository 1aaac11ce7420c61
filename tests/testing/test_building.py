"""Commits made for tests are ones that the core accepts."""

import pytest

from perdure.core.errors import Invalid
from perdure.core.session import chain, ids, record, state
from perdure.core.session.origin import BranchKind
from perdure.testing import Builder, FixedAmbient
from perdure.testing.building import key_use, opens, said


@pytest.fixture
def make() -> Builder:
    return Builder(FixedAmbient())


def test_a_commit_and_its_state_can_be_taken_apart(make: Builder) -> None:
    commit, reached = make.create(title="t")
    assert (commit.creates, commit.expected, commit.row.title, reached.version) == (True, 0, "t", 1)


def test_a_built_log_is_chained_and_folds_to_its_state(make: Builder) -> None:
    first = make.create(said("a"), owner="ada")
    second = make.append(first, said("b"), make.mark("here"))
    digest = chain.genesis(ids.raw(first.session))
    events = []
    for made in (first, second):
        events += record.read(made.commit.record, "tenant", digest)
        digest = events[-1].digest
        assert digest == made.digest
    assert state.fold(state.BLANK, events) == second.state
    assert [item.label for item in second.commit.checkpoints] == ["here"]


def test_fields_of_a_commit_are_told_from_fields_of_the_session(make: Builder) -> None:
    use = key_use("k")
    made = make.create(owner="ada", key=use, accounts=opens("purse", 5))
    assert (made.commit.row.owner, made.commit.key, made.commit.accounts) == ("ada", use, opens("purse", 5))


def test_an_append_says_whether_the_listing_changed(make: Builder) -> None:
    made = make.create()
    assert made.commit.listing
    assert not make.append(made).commit.listing


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_branch_starts_from_the_digest_and_state_at_its_version(make: Builder, version: int) -> None:
    parent = make.create(said("a"), said("b"))
    branch = make.branch(parent, version=version, kind=BranchKind.DREAM)
    reached, digest = parent.at(version)
    assert branch.commit.expected == reached.version == version
    assert (branch.segments[0].upto, branch.segments[0].digest) == (version, digest)
    assert branch.start == chain.genesis(ids.raw(branch.session), digest)
    assert (branch.commit.row.parent, branch.commit.row.branch_kind) == (parent.session, "dream")


def test_what_the_core_refuses_cannot_be_built(make: Builder) -> None:
    with pytest.raises(Invalid):
        make.create(said("\ud800"))


def test_two_builders_with_the_same_ambient_build_the_same(make: Builder) -> None:
    assert make.create().commit == Builder(FixedAmbient()).create().commit
