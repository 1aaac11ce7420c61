"""Waking as far as it is deciding: freshness, tokens, tools, integrity, the evidence a session wants, the command."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.core.errors import (
    InsufficientTokenBudget,
    Invalid,
    MoveRefused,
    RequiredToolUnavailable,
    SessionIntegrity,
    ToolUnauthorized,
    ToolUnbound,
    WakeRefused,
)
from perdure.core.session import commands as do
from perdure.core.session import tools as bindings
from perdure.core.session.budget import Account, Budget
from perdure.core.session.children import Children
from perdure.core.session.decide import Facts, decide
from perdure.core.session.lifecycle import Moved, Phase
from perdure.core.session.origin import BranchKind, Config, Created, Isolation, Lineage, Origin
from perdure.core.session.quality import Quality, Retrieval, Wanted
from perdure.core.session.state import BLANK, State, evolve, fold, from_bytes, to_bytes
from perdure.core.session.tools import Binding, ToolBound, Tools
from perdure.core.session.turns import OpenTurn, ToolAsked, ToolStarted, TurnInterrupted, Turns, TurnStarted, Unfinished
from perdure.core.session.waking import (
    CHECKS,
    SECOND,
    Found,
    Lookup,
    Standing,
    Tool,
    ToolSpec,
    WakePolicy,
    bound_events,
    fresh_enough,
    freshness,
    freshness_of,
    integrity,
    must_add_up,
    must_sleep,
    must_suffice,
    planned,
    rebind,
    retrievals,
    scope_of,
    token_budget,
)
from perdure.core.session.woken import BoundTool, Evidence, EvidenceOutcome, ToolOutcome
from tests.core.session.logbook import NOON, SESSION, Logbook, event_of
from tests.core.session.payloads import structs

HOUR = 3600 * SECOND
ages = st.integers(0, 10**15)
half_lives = st.floats(0.001, 1e9)


# ── freshness ─────────────────────────────────────────────────────────────────────────────────────


@given(ages, half_lives)
def test_freshness_lies_between_one_and_nothing(age: int, half_life: float) -> None:
    assert 0.0 <= freshness(age, half_life) <= 1.0


@given(half_lives)
def test_freshness_halves_with_every_half_life(half_life: float) -> None:
    age = round(half_life * SECOND)
    for times in range(6):
        assert freshness(age * times, half_life) == pytest.approx(0.5**times, rel=1e-2)


@given(ages, ages, half_lives)
def test_what_is_older_is_never_fresher(one: int, other: int, half_life: float) -> None:
    assert freshness(max(one, other), half_life) <= freshness(min(one, other), half_life)


@given(st.integers(-(10**15), 0), half_lives)
def test_what_was_fetched_just_now_or_by_a_clock_ahead_is_wholly_fresh(age: int, half_life: float) -> None:
    assert freshness(age, half_life) == 1.0


founds = st.builds(Found, results=st.integers(), fetched_at=st.integers(NOON - 10 * HOUR, NOON))


@given(st.lists(founds | st.none(), max_size=4), st.floats(0, 1), st.sampled_from(["web", "file"]))
def test_only_the_freshest_is_used_and_only_if_it_is_fresh_enough(
    known: list[Found | None], threshold: float, source: str
) -> None:
    policy = WakePolicy(threshold=threshold, half_life=7200, half_lives={"web": 600})
    chosen = fresh_enough(known, source, NOON, policy)
    real = [item for item in known if item is not None]
    usable = [item for item in real if freshness_of(item, source, NOON, policy) >= threshold]
    assert (chosen is None) == (not usable)
    if chosen is not None:
        assert chosen in real
        assert chosen.fetched_at == max(item.fetched_at for item in real)


def test_each_kind_of_source_ages_at_its_own_pace() -> None:
    policy = WakePolicy(half_life=3600, half_lives={"news": 60})
    found = Found(results=[], fetched_at=NOON - 600 * SECOND)
    assert fresh_enough([found], "manual", NOON, policy) is found
    assert fresh_enough([found], "news", NOON, policy) is None


# ── the evidence a session wants ──────────────────────────────────────────────────────────────────


def wanted_after(*payloads: Retrieval, redacted: tuple[int, ...] = ()) -> dict[str, Wanted]:
    state = BLANK
    for version, payload in enumerate(payloads, 1):
        blanked = version in redacted
        event = event_of(
            Retrieval() if blanked else payload, version, at=NOON + version, redacted=blanked, target=payload.aim()
        )
        state = evolve(state, event)
    assert state.quality.retrievals == len(payloads)
    assert to_bytes(from_bytes(to_bytes(state))) == to_bytes(state)
    return state.quality.wanted


ASKED = Retrieval(id="r", query="price of fish", source="web", pending=True, required=True)


def test_what_is_pending_is_wanted_until_it_is_answered() -> None:
    assert wanted_after(ASKED) == {
        "r": Wanted(query="price of fish", source="web", required=True, asked=NOON + 1),
    }
    assert wanted_after(ASKED, Retrieval(id="r", results=[3])) == {}


def test_an_answer_that_is_kept_says_when_and_where_it_was_given() -> None:
    kept = wanted_after(ASKED, Retrieval(id="r", results=[3], keep=True))["r"]
    assert kept == Wanted(
        query="price of fish", source="web", required=True, asked=NOON + 1, answered=NOON + 2, version=2
    )
    older = wanted_after(ASKED, Retrieval(id="r", results=[3], keep=True, fetched_at=NOON - 5))["r"]
    assert (older.answered, older.version) == (NOON - 5, 2)


def test_asking_again_forgets_the_answer_and_letting_go_forgets_it_all() -> None:
    answered = Retrieval(id="r", results=[3], keep=True)
    again = wanted_after(ASKED, answered, Retrieval(id="r", pending=True))["r"]
    assert (again.answered, again.version, again.asked) == (None, None, NOON + 3)
    assert wanted_after(ASKED, answered, Retrieval(id="r")) == {}


def test_evidence_whose_content_was_destroyed_is_wanted_no_more() -> None:
    answered = Retrieval(id="r", results=["secret"], keep=True)
    assert wanted_after(ASKED, answered, redacted=(2,)) == {}
    assert wanted_after(ASKED, answered, redacted=(1,)) == {}
    assert wanted_after(ASKED, redacted=(1,)) == {}


def test_retrievals_without_an_id_are_counted_and_change_no_other_byte() -> None:
    old = [Retrieval(query="q", source="s", results=[1]), Retrieval(query="q", pending=True), Retrieval()]
    assert wanted_after(*old) == {}
    state = fold(BLANK, [event_of(payload, version) for version, payload in enumerate(old, 1)])
    assert state.quality == Quality(retrievals=3)


@given(st.lists(structs(Retrieval), max_size=6))
def test_any_retrieval_folds_into_something_that_can_be_stored(payloads: list[Retrieval]) -> None:
    for name, item in wanted_after(*payloads).items():
        assert name
        assert item.query
        assert (item.answered is None) == (item.version is None)


@pytest.mark.parametrize("kind", BranchKind)
def test_a_branch_wants_the_evidence_its_parent_wanted(kind: BranchKind) -> None:
    book = Logbook().begin()
    book.say(ASKED, Retrieval(results=[1]))
    lineage = Lineage(parent=SESSION, version=book.state.version, digest=b"d", kind=kind)
    branch = evolve(book.state, event_of(Created(lineage=lineage), book.state.version + 1))
    assert branch.quality == Quality(wanted=book.state.quality.wanted)
    assert set(branch.quality.wanted) == {"r"}


@pytest.mark.parametrize("payload", [Retrieval(query="q", pending=True), Retrieval(query="q", keep=True)])
def test_what_shall_be_kept_in_mind_needs_a_name(payload: Retrieval) -> None:
    with pytest.raises(Invalid, match="needs an id"):
        Logbook().begin().say(payload)


def evidence(name: str, outcome: EvidenceOutcome, fetched_at: int | None = NOON) -> Evidence:
    return Evidence(
        id=name, query="q", source="web", required=False, outcome=outcome, results=["x"], fetched_at=fetched_at
    )


def test_what_was_found_is_written_unless_the_log_has_it() -> None:
    wanted = {name: Wanted(query="q", answered=NOON, version=3) for name in "abcd"} | {"e": Wanted(query="q")}
    found = [
        evidence("a", EvidenceOutcome.REUSED),
        evidence("b", EvidenceOutcome.REUSED, NOON + 5),
        evidence("c", EvidenceOutcome.RETRIEVED),
        evidence("d", EvidenceOutcome.FAILED, None),
        evidence("e", EvidenceOutcome.REUSED),
    ]
    events = retrievals(found, wanted)
    assert [event.id for event in events] == ["b", "c", "e"]
    assert all(event.keep and not event.pending and event.results == ["x"] for event in events)


# ── tokens ────────────────────────────────────────────────────────────────────────────────────────


def spent(tokens_in: int, tokens_out: int, limit: int | None) -> State:
    turns = Turns(tokens_in=tokens_in, tokens_out=tokens_out)
    return msgspec.structs.replace(BLANK, session=SESSION, turns=turns, origin=Origin(config=Config(max_tokens=limit)))


@given(st.integers(0, 500), st.integers(0, 500), st.none() | st.integers(0, 900), st.none() | st.integers(0, 900))
def test_the_token_budget_is_the_smaller_limit_less_what_was_used(
    tokens_in: int, tokens_out: int, own: int | None, given_limit: int | None
) -> None:
    budget = token_budget(spent(tokens_in, tokens_out, own), WakePolicy(max_tokens=given_limit))
    limits = [limit for limit in (own, given_limit) if limit is not None]
    assert budget.consumed == tokens_in + tokens_out
    assert budget.left == (min(limits) - budget.consumed if limits else None)


@given(st.integers(0, 500), st.none() | st.integers(0, 900), st.integers(0, 400))
def test_too_few_tokens_are_refused_with_the_numbers(used: int, limit: int | None, least: int) -> None:
    state, policy = spent(used, 0, limit), WakePolicy(min_tokens=least)
    budget = token_budget(state, policy)
    if limit is None or limit - used >= least:
        return must_suffice(state, budget, policy)
    with pytest.raises(InsufficientTokenBudget, match="configure") as refusal:
        must_suffice(state, budget, policy)
    error = refusal.value
    assert (error.left, error.needed, error.limit, error.consumed) == (limit - used, least, limit, used)
    return None


# ── tools ─────────────────────────────────────────────────────────────────────────────────────────

offers = st.none() | st.builds(Tool, name=st.sampled_from(["search", "grep"]), version=st.just("1.0.0"))
lookups = st.builds(
    Lookup,
    tool=offers,
    allowed=st.booleans(),
    substitute=offers,
    substitute_allowed=st.booleans(),
    trouble=st.text(),
    versions=st.sampled_from([(), ("0.9.0",), ("0.9.0", "2.0.0")]),
)
specs = st.builds(ToolSpec, name=st.just("search"), constraint=st.sampled_from(["", "^1"]), required=st.booleans())


def bound_or_refused(spec: ToolSpec, lookup: Lookup) -> BoundTool | WakeRefused:
    try:
        return rebind(SESSION, spec, lookup)
    except WakeRefused as refusal:
        return refusal


@given(specs, lookups)
def test_a_plan_binds_every_required_tool_or_is_refused(spec: ToolSpec, lookup: Lookup) -> None:
    bound = bound_or_refused(spec, lookup)
    if isinstance(bound, WakeRefused):
        gone = lookup.tool is None and lookup.substitute is None
        assert spec.required
        assert type(bound) is (RequiredToolUnavailable if gone else ToolUnauthorized)
        return
    left = Tools(bindings={event.name: bindings.binding_of(event) for event in bound_events([bound])})
    assert bindings.unbound(left) == ()
    match bound.outcome:
        case ToolOutcome.REBOUND:
            assert lookup.tool is not None
            assert lookup.allowed
            assert (bound.version, bound.substitute) == (lookup.tool.version, None)
        case ToolOutcome.SUBSTITUTED:
            assert lookup.tool is None
            assert lookup.substitute_allowed
            assert lookup.substitute is not None
            assert (bound.version, bound.substitute) == (lookup.substitute.version, lookup.substitute.name)
            assert bound.reason
        case ToolOutcome.DEGRADED:
            assert not spec.required
            assert (bound.version, bound.substitute, bool(bound.call)) == (None, None, False)
            assert bound.reason
            with pytest.raises(ToolUnbound) as unbound:
                bound.call()
            assert (unbound.value.tool, unbound.value.reason) == (spec.name, bound.reason)


def test_a_tool_that_may_not_be_used_is_not_replaced_behind_the_back_of_whoever_forbade_it() -> None:
    lookup = Lookup(
        tool=Tool(name="search", version="1.0.0"),
        substitute=Tool(name="grep", version="3.0.0"),
        substitute_allowed=True,
    )
    assert rebind(SESSION, ToolSpec(name="search"), lookup).outcome is ToolOutcome.DEGRADED
    with pytest.raises(ToolUnauthorized):
        rebind(SESSION, ToolSpec(name="search", required=True), lookup)


# ── integrity ─────────────────────────────────────────────────────────────────────────────────────


def odd(**parts: Any) -> State:
    return msgspec.structs.replace(BLANK, session=SESSION, **parts)


UNBOUND = Tools(bindings={"search": Binding(required=True), "grep": Binding()})
BROKEN: dict[str, tuple[State, Standing, str]] = {
    "chain": (odd(), Standing(chain="versions 3 to 4 were changed"), "versions 3 to 4"),
    "state": (odd(), Standing(state="it is not the fold"), "not the fold"),
    "turn": (odd(turns=Turns(open=OpenTurn(number=2, since=0, version=5))), Standing(), "turn 2 is open"),
    "tools": (odd(tools=UNBOUND), Standing(), "not bound: search"),
    "budget": (odd(budget=Budget(spent=5, open={"r": 2})), Standing(account=Account(spent=5, reserved=1)), "5 and 2"),
    "children": (odd(children=Children(open={"kid": 1, "other": 1})), Standing(children=frozenset({"kid"})), "other"),
}


def test_every_check_can_fail() -> None:
    assert set(BROKEN) == set(CHECKS)


@pytest.mark.parametrize("name", CHECKS)
def test_what_does_not_add_up_is_named_alone(name: str) -> None:
    state, standing, words = BROKEN[name]
    checks = integrity(state, standing)
    assert [check.name for check in checks] == list(CHECKS)
    assert [check.name for check in checks if not check.ok] == [name]
    with pytest.raises(SessionIntegrity, match=words) as refusal:
        must_add_up(SESSION, checks)
    assert refusal.value.failures == (name,)


def test_what_is_excused_is_told_but_does_not_stop() -> None:
    state, standing, _ = BROKEN["children"]
    checks = integrity(state, standing, ("children",))
    must_add_up(SESSION, checks)
    assert [(check.name, check.excused) for check in checks if not check.ok] == [("children", True)]


def test_all_failures_are_named_at_once() -> None:
    state = odd(tools=UNBOUND, children=Children(open={"kid": 1}))
    with pytest.raises(SessionIntegrity) as refusal:
        must_add_up(SESSION, integrity(state, Standing(chain="cut")))
    assert refusal.value.failures == ("chain", "tools", "children")


def test_the_planned_state_has_its_turn_closed_and_its_tools_bound() -> None:
    before = odd(turns=Turns(count=1, open=OpenTurn(number=1, since=0, version=1)), tools=UNBOUND)
    after = planned(before, [ToolBound(name="search", required=True, version="1.0.0")])
    assert all(check.ok for check in integrity(after, Standing()))
    assert after.tools.bindings == {"search": Binding(required=True, version="1.0.0"), "grep": Binding()}


# ── the command ───────────────────────────────────────────────────────────────────────────────────


def asleep() -> Logbook:
    book = Logbook().begin()
    book.say(ToolBound(name="search", required=True, constraint="^1", version="1.0.0"), ASKED)
    book.do(do.MoveTo(event="suspend"))
    return book


BOUND = ToolBound(name="search", required=True, constraint="^1", version="1.2.0")


def test_waking_moves_and_tells_what_was_found_in_one_append() -> None:
    book = asleep()
    events = book.do(do.Wake(tools=(BOUND,), retrievals=(Retrieval(id="r", results=[1], keep=True),)))
    assert [event.kind for event in events] == ["moved", "tool_bound", "retrieval"]
    assert events[2].target == "r"
    assert book.state.phase is Phase.RESUMED
    assert book.state.tools.bindings["search"].version == "1.2.0"
    assert book.state.quality.wanted["r"].version == events[2].version
    assert to_bytes(fold(BLANK, book.events)) == to_bytes(book.state)


def test_waking_what_a_crash_left_resumed_moves_no_more() -> None:
    book = asleep()
    book.do(do.Wake())
    assert [event.kind for event in book.do(do.Wake(tools=(BOUND,)))] == ["tool_bound"]
    assert book.do(do.Wake()) == ()
    assert isinstance(book.do(do.MoveTo(event="reactivate"))[0].data, Moved)


def test_waking_closes_a_turn_that_a_crash_left_open_and_names_its_tools() -> None:
    book = Logbook().begin()
    book.say(TurnStarted(), ToolAsked(call="c", name="book"), ToolStarted(call="c", key="k"))
    frozen = msgspec.structs.replace(book.state, life=msgspec.structs.replace(book.state.life, phase=Phase.SUSPENDED))
    closed, moved = [item.payload for item in decide(frozen, do.Wake(), Facts(at=NOON))]  # type: ignore[union-attr]
    assert closed == TurnInterrupted(reason="crash", unfinished=(Unfinished("c", "book", "k", True),))
    assert isinstance(moved, Moved)


@pytest.mark.parametrize("move", ["complete", "terminate", None])
def test_what_is_not_asleep_cannot_be_woken(move: str | None) -> None:
    book = Logbook().begin()
    if move is not None:
        book.do(do.MoveTo(event=move))
    for act in (lambda: book.do(do.Wake()), lambda: must_sleep(book.state)):
        with pytest.raises(MoveRefused, match="'resume' is not a move"):
            act()


def test_the_scope_says_whose_session_it_is() -> None:
    book = Logbook().begin(owner="ana", agent_id="planner", isolation=Isolation(model="task", task="tax"))
    scope = scope_of(book.state, "bo")
    assert (scope.tenant, scope.session, scope.owner, scope.actor) == ("tenant", SESSION, "ana", "bo")
    assert (scope.agent, scope.isolation.task) == ("planner", "tax")


@pytest.mark.parametrize(
    "fields",
    [
        {"allow_fallback": 1}, {"require_checkpoint": None}, {"max_tokens": -1}, {"max_tokens": 1.5},
        {"min_tokens": None}, {"min_tokens": True}, {"threshold": 1.5}, {"threshold": -0.1},
        {"threshold": float("nan")}, {"half_life": 0}, {"half_life": float("inf")}, {"half_lives": {"web": -1}},
        {"half_lives": [1]}, {"deadline": 0}, {"deadline": "soon"}, {"cache_ttl": 0}, {"excuse": ("chain",)},
        {"excuse": ["budget"]}, {"excuse": ("luck",)},
    ],
)  # fmt: skip
def test_a_policy_that_makes_no_sense_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(Invalid):
        WakePolicy(**fields)
