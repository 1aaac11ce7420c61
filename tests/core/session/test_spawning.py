"""Having children: who may, how many at once, and what is set aside for them."""

import pytest

from perdure.core.errors import BranchRefused, BudgetExhausted, Invalid, SpawnRefused, Suspended
from perdure.core.session import commands as do
from perdure.core.session.budget import Reserved
from perdure.core.session.children import ChildFinished, Children, Spawned
from perdure.core.session.decide import Facts, decide
from perdure.core.session.event import Draft
from perdure.core.session.lifecycle import Life, Phase
from perdure.core.session.origin import CHILD, BranchKind, Config, Created, Origin, must_branch
from perdure.core.session.spawning import MAX_OPEN
from perdure.core.session.state import State

FACTS = Facts(at=5)
AWAKE = State(session="s", version=3, life=Life(phase=Phase.ACTIVE))


def payloads(state: State, command: do.Command) -> list[object]:
    return [item.payload for item in decide(state, command, FACTS) if isinstance(item, Draft)]


def awake(**parts: object) -> State:
    return State(session="s", version=3, life=Life(phase=Phase.ACTIVE), **parts)  # type: ignore[arg-type]


def test_a_child_is_written_down_with_all_it_is_begun_with() -> None:
    command = do.Spawn(
        child="c", task="look", context="there", model="m", max_tokens=9, returns="full", tools=("a",), strategy="s",
        node="n", agent="ann",
    )  # fmt: skip
    [draft] = decide(AWAKE, command, FACTS)
    assert isinstance(draft, Draft)
    assert (draft.agent, draft.target, draft.turn) == ("ann", "c", None)
    assert draft.payload == Spawned(
        child="c", task="look", context="there", model="m", max_tokens=9, returns="full", tools=("a",), strategy="s",
        node="n",
    )  # fmt: skip


def test_a_slice_is_set_aside_before_the_child_and_must_fit() -> None:
    wanted = do.Reserve(reservation="c", amount=40, purpose="slice", tokens=7, rounds=2)
    found = payloads(AWAKE, do.Spawn(child="c", task="look", slice=wanted))
    assert found == [
        Reserved(reservation="c", amount=40, purpose="slice", tokens=7, rounds=2),
        Spawned(child="c", task="look", slice=40, returns="summary"),
    ]
    tight = awake(origin=Origin(config=Config(max_cost=39)))
    with pytest.raises(BudgetExhausted):
        decide(tight, do.Spawn(child="c", task="look", slice=wanted), FACTS)


def test_a_child_cannot_spawn() -> None:
    with pytest.raises(SpawnRefused, match="have p spawn it"):
        decide(awake(origin=Origin(spawner="p")), do.Spawn(child="c", task="x"), FACTS)


def test_no_more_children_are_at_work_than_may_be() -> None:
    family = Children(open={str(number): 0 for number in range(MAX_OPEN)})
    with pytest.raises(SpawnRefused, match="wait for some"):
        decide(awake(children=family), do.Spawn(child="c", task="x"), FACTS)


def test_a_sleeping_session_and_an_empty_task_spawn_nothing() -> None:
    with pytest.raises(Suspended):
        decide(State(session="s", version=3, life=Life(phase=Phase.SUSPENDED)), do.Spawn(child="c", task="x"), FACTS)
    with pytest.raises(Invalid, match="needs a task"):
        decide(AWAKE, do.Spawn(child="c", task=" \n"), FACTS)
    with pytest.raises(Invalid, match="summary or full"):
        decide(AWAKE, do.Spawn(child="c", task="x", returns="half"), FACTS)


@pytest.mark.parametrize("phase", list(Phase))
def test_what_came_of_a_child_is_noted_once_and_in_every_phase(phase: Phase) -> None:
    over = do.FinishChild(child="c", phase="completed", result="seven", spent=3)
    there = State(session="s", version=3, life=Life(phase=phase), children=Children(open={"c": 0}))
    assert payloads(there, over) == [ChildFinished(child="c", phase="completed", result="seven", spent=3)]
    assert payloads(State(session="s", version=3, life=Life(phase=phase)), over) == []


def test_a_child_is_known_as_one_by_its_own_log() -> None:
    [draft] = decide(State(), do.Create(spawner="p"), FACTS)
    assert isinstance(draft, Draft)
    assert isinstance(draft.payload, Created)
    assert draft.payload.spawner == "p"


@pytest.mark.parametrize("kind", [CHILD, *[kind.value for kind in BranchKind if kind is not BranchKind.CHECKPOINT]])
def test_what_is_single_level_cannot_be_branched(kind: str) -> None:
    with pytest.raises(BranchRefused, match="branch p") as refusal:
        must_branch("s", "p", kind)
    assert refusal.value.fields == {"session": "s", "parent": "p"}


def test_sessions_and_their_plain_branches_can_be_branched() -> None:
    must_branch("s", None, None)
    must_branch("s", "p", "checkpoint")
