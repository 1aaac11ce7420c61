"""Whom sessions let in, model by model."""

import pytest

from perdure.core.access.decide import decide
from perdure.core.access.isolation import MODELS, PERMISSIONS
from perdure.core.access.roles import ACTIONS, Context, Resource, Role
from perdure.core.access.rules import OPEN
from tests.core.access.asking import actor, session

READ, WRITE = ACTIONS["read:state"], ACTIONS["write:state"]
AGENT = {"kind": "agent", "name": "bot"}


def may(who: object, resource: Resource) -> str:
    """What somebody may do to the state: r, w, rw or nothing."""
    return "".join(
        letter
        for letter, action in {"r": READ, "w": WRITE}.items()
        if decide(who, action, resource, Context(), OPEN).allowed  # type: ignore[arg-type]
    )


@pytest.mark.parametrize("model", [*MODELS, "unheard of"])
def test_a_person_reaches_their_own_session_under_every_model(model: str) -> None:
    assert may(actor(Role.OWNER), session(model=model, task="sorting")) == "rw"


@pytest.mark.parametrize("model", ["", "per_user"])
def test_per_user_lets_in_agents_of_the_owner_named_ones_and_permitted_ones(model: str) -> None:
    theirs = session("ann", model=model, task="sorting")
    assert may(actor(Role.AGENT, acting_for="ann", **AGENT), theirs) == "rw"
    assert may(actor(Role.AGENT, acting_for="bob", **AGENT), theirs) == ""
    assert may(actor(Role.AGENT, **AGENT), session("ann", model=model, users=("bot",))) == "rw"
    assert may(actor(Role.AGENT, **AGENT), session("ann", model=model, agents={"bot": "read"})) == "r"


def test_an_agent_acting_for_a_person_who_is_merely_named_is_not_let_in() -> None:
    assert may(actor(Role.AGENT, acting_for="bob", **AGENT), session("ann", users=("bob",))) == ""


@pytest.mark.parametrize(
    ("scope", "task", "allowed"),
    [
        ("sorting", "sorting", "rw"),
        ("sorting", "packing", ""),
        ("sorting", None, ""),
        (None, "sorting", ""),
        (None, None, ""),
    ],
)
def test_per_task_lets_in_an_agent_only_for_its_task(scope: str | None, task: str | None, allowed: str) -> None:
    theirs = session("ann", model="per_task", task=scope)
    assert may(actor(Role.AGENT, acting_for="ann", task=task, **AGENT), theirs) == allowed


def test_per_task_lets_in_no_stranger_who_has_the_task() -> None:
    theirs = session("ann", model="per_task", task="sorting")
    assert may(actor(Role.AGENT, acting_for="bob", task="sorting", **AGENT), theirs) == ""


def test_an_owner_who_works_on_another_task_is_kept_out_of_this_one() -> None:
    assert may(actor(Role.OWNER, task="packing"), session(model="per_task", task="sorting")) == ""
    assert may(actor(Role.OWNER, task="packing"), session(model="per_user", task="sorting")) == "rw"


@pytest.mark.parametrize(
    ("given", "allowed"), [("none", ""), ("read", "r"), ("read_write", "rw"), (None, ""), ("odd", "")]
)
def test_per_agent_gives_each_agent_what_its_permission_says(given: str | None, allowed: str) -> None:
    theirs = session("ann", model="per_agent", agents={} if given is None else {"critic": given})
    assert may(actor(Role.AGENT, acting_for="ann", agent="critic", **AGENT), theirs) == allowed


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("given", PERMISSIONS)
def test_a_permission_binds_an_agent_under_every_model(model: str, given: str) -> None:
    theirs = session("ann", model=model, task="sorting", agents={"bot": given})
    who = actor(Role.AGENT, acting_for="ann", task="sorting", **AGENT)
    assert may(who, theirs) == {"none": "", "read": "r", "read_write": "rw"}[given]


def test_an_agent_that_owns_a_session_is_still_bound_by_its_permission_there() -> None:
    assert may(actor(Role.OWNER, kind="agent"), session(agents={"ann": "read"})) == "r"
    assert may(actor(Role.OWNER, agent="critic"), session(model="per_agent")) == ""


def test_a_child_belongs_to_its_parents_owner() -> None:
    child = session("bob", model="nested", task="part", parent_owner="ann", parent_task="whole")
    assert may(actor(Role.OWNER), child) == "rw"
    assert may(actor(Role.OWNER, name="bob"), child) == ""


@pytest.mark.parametrize(("task", "allowed"), [("part", "rw"), ("whole", ""), (None, "")])
def test_a_child_is_reached_by_its_own_task_not_by_its_parents(task: str | None, allowed: str) -> None:
    child = session("", model="nested", task="part", parent_owner="ann", parent_task="whole")
    assert may(actor(Role.AGENT, acting_for="ann", task=task, **AGENT), child) == allowed


def test_a_child_without_a_task_of_its_own_lets_in_no_agent() -> None:
    child = session("ann", model="nested", task="whole", parent_owner="ann", parent_task="whole")
    assert may(actor(Role.AGENT, acting_for="ann", task="whole", **AGENT), child) == ""


def test_an_unknown_model_lets_in_the_owner_alone() -> None:
    strange = session("ann", model="unheard of", users=("bot",), agents={"bot": "read_write"})
    assert may(actor(Role.AGENT, acting_for="ann", **AGENT), strange) == ""


def test_a_nameless_actor_owns_nothing() -> None:
    assert may(actor(Role.OWNER, name=""), session("")) == ""
    assert may(actor(Role.AGENT, acting_for="", **AGENT), session("")) == ""


def test_nobody_creates_a_session_for_somebody_else() -> None:
    create = ACTIONS["create:session"]
    for owner, allowed in {"": True, "ann": True, "bob": False}.items():
        nothing = Resource(tenant="t", owner=owner)
        assert decide(actor(Role.OWNER), create, nothing, Context(), OPEN).allowed is allowed


@pytest.mark.parametrize("action", ["move:store", "read:turns", "issue:tokens", "create:checkpoints", "list:turns"])
def test_an_owners_role_does_not_count_outside_of_sessions(action: str) -> None:
    for owner in ("", "ann"):
        assert not decide(
            actor(Role.OWNER), ACTIONS[action], Resource(tenant="t", owner=owner), Context(), OPEN
        ).allowed
