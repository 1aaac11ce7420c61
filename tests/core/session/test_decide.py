"""Deciding: each command does what it says or is refused by name, and no sequence of them breaks an invariant."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from perdure.core.errors import (
    BudgetExhausted,
    GuardFailed,
    Invalid,
    MoveRefused,
    NotFound,
    Refused,
    Suspended,
    Terminal,
    TooLarge,
    TurnRefused,
)
from perdure.core.session import chain, codec, record
from perdure.core.session import commands as do
from perdure.core.session import state as states
from perdure.core.session.admission import MAX_EVENTS
from perdure.core.session.agents import Delegation
from perdure.core.session.budget import Overrun, Reserved, Settled
from perdure.core.session.checkpoints import Adaptive, CheckpointPolicy, CheckpointTaken, Trigger
from perdure.core.session.children import Spawned
from perdure.core.session.decide import Facts, decide, drafts_of
from perdure.core.session.event import Draft, Payload, draft
from perdure.core.session.kinds import KINDS, blank
from perdure.core.session.lifecycle import MOVE_NAMES, MOVES, ExitCriterion, Moved, Phase
from perdure.core.session.links import ConflictFound, Linked, Merged, Relation
from perdure.core.session.memories import MemoryPlanned
from perdure.core.session.origin import Config, Configured, Created
from perdure.core.session.redaction import Redacted
from perdure.core.session.scratchpad import ScratchpadWritten
from perdure.core.session.state import BLANK, State, to_bytes
from perdure.core.session.steering import Feedback
from perdure.core.session.tools import ToolBound
from perdure.core.session.turns import (
    Message,
    ToolAsked,
    ToolFinished,
    ToolStarted,
    TurnFinished,
    TurnInterrupted,
    TurnRolledBack,
    TurnStarted,
    Unfinished,
)
from perdure.core.session.vars import VarsPatched
from perdure.core.session.wishes import Wish, with_automatic_checkpoints
from tests.core.session.logbook import NOON, RAW, SECOND, Logbook, drafts
from tests.core.session.payloads import payloads
from tests.core.session.plain_values import similar_documents

AT = Facts(at=NOON)


def begun(**fields: Any) -> Logbook:
    return Logbook().begin(**fields)


def decided(state: State, command: do.Command, **facts: Any) -> list[Payload | Wish]:
    found = decide(state, command, Facts(at=NOON, **facts))
    return [item if isinstance(item, Wish) else item.payload for item in found]


def asleep() -> Logbook:
    book = begun()
    book.do(do.MoveTo(event="suspend"))
    return book


def ended() -> Logbook:
    book = begun()
    book.do(do.MoveTo(event="complete"))
    return book


# ── beginning ─────────────────────────────────────────────────────────────────────────────────────


def test_creating_writes_who_it_is_what_it_holds_and_that_it_is_active() -> None:
    command = do.Create(
        owner="ana", title="Lisbon", vars={"a": 1}, schema="Trip", schema_version="1.0.0", activate=True
    )
    created, patched, moved = decided(BLANK, command)
    assert isinstance(created, Created)
    assert (created.owner, created.title) == ("ana", "Lisbon")
    assert isinstance(patched, VarsPatched)
    assert (patched.schema, patched.schema_version) == ("Trip", "1.0.0")
    assert moved == Moved(event="activate", source=Phase.INIT, to=Phase.ACTIVE)
    assert len(decided(BLANK, do.Create())) == 1


def test_a_session_whose_vars_do_not_fit_is_not_activated() -> None:
    with pytest.raises(GuardFailed):
        decided(BLANK, do.Create(activate=True), vars_valid=False)


EVERY_COMMAND: list[do.Command] = [
    do.Append(drafts=(Draft(Message(role="user")),)),
    do.Record(drafts=(Draft(Message(role="user")),)),
    do.Remember(drafts=(Draft(MemoryPlanned(plan="free")),)),
    do.Retract(first=1, upto=1),
    do.Configure(title="x"),
    do.MoveTo(event="suspend"),
    do.Wake(),
    do.SetVars(document={}),
    do.WriteScratchpad(content=""),
    do.Reserve(reservation="r", amount=1),
    do.Settle(reservation="r", cost=1),
    do.Correct(reservation="r", cost=1),
    do.Advance(),
    do.GiveUp(asks=("a",)),
    do.Approve(call="c", allowed=True),
    do.Spawn(child="s", task="t"),
    do.FinishChild(child="s", phase="completed"),
    do.TakeCheckpoint(),
    do.PinCheckpoint(id="c", pinned=True),
    do.ExpireCheckpoints(ids=("c",)),
    do.Recover(),
    do.RollBack(),
    do.MergeIn(source="s", source_version=1, base_version=1, policy="ours", document={}, pads={}),
    do.Redact(versions=(1,)),
    do.Renew(expires_at=NOON + 1),
    do.NoteCompensation(index=0, name="x"),
    do.CleanUp(step="flush", since=NOON),
    do.NoteEnded(other="s"),
]


@pytest.mark.parametrize("command", EVERY_COMMAND)
def test_nothing_happens_before_a_session_begins(command: do.Command) -> None:
    with pytest.raises(Invalid, match="begins with create"):
        decide(BLANK, command, AT)


def test_every_command_has_its_rule() -> None:
    commands = {cls for cls in vars(do).values() if isinstance(cls, type) and issubclass(cls, do.Command)}
    tested = {type(command) for command in EVERY_COMMAND}
    assert commands - {do.Command, do.Create} == tested


def test_what_is_no_command_is_refused() -> None:
    class Levitate(do.Command, frozen=True):
        pass

    with pytest.raises(Invalid, match="Levitate"):
        decide(begun().state, Levitate(), AT)


# ── appending ─────────────────────────────────────────────────────────────────────────────────────


def test_events_know_the_turn_they_belong_to() -> None:
    book = begun()
    book.say(Message(role="system"), TurnStarted(), Message(role="user"), TurnFinished(), Message(role="system"))
    book.say(TurnStarted(), Message(role="user"))
    book.do(do.Recover())
    assert [event.turn for event in book.events[2:]] == [None, 1, 1, 1, None, 2, 2, 2]


def test_callers_may_append_exactly_these_kinds() -> None:
    assert {kind for kind, cls in KINDS.items() if cls.callers} == {
        "agent_joined", "agent_paused", "agent_resumed", "compacted", "compensation_registered", "delegation",
        "exit_criterion", "feedback", "followed_up", "linked", "message", "noted", "outcome_known", "repair",
        "retrieval",
        "room_message", "round", "scratchpad_written", "steered", "tool_asked", "tool_bound", "tool_finished",
        "tool_started", "turn_finished", "turn_started", "verification_result",
    }  # fmt: skip


@pytest.mark.parametrize("kind", sorted(kind for kind, cls in KINDS.items() if not cls.callers))
def test_what_perdure_writes_itself_callers_may_not(kind: str) -> None:
    with pytest.raises(Invalid, match=f"{kind} is written by perdure itself"):
        begun().say(blank(kind))


@pytest.mark.parametrize("kind", sorted(kind for kind, cls in KINDS.items() if cls.callers))
def test_a_session_that_is_not_awake_takes_only_feedback_and_links(kind: str) -> None:
    for book, error in ((asleep(), Suspended), (ended(), Terminal), (begun(activate=False), Suspended)):
        before = book.state
        if kind in {"feedback", "linked"}:
            book.say(blank(kind))
            continue
        with pytest.raises(error):
            book.say(blank(kind))
        assert book.state is before


def test_one_bad_event_refuses_the_whole_append() -> None:
    book = begun()
    with pytest.raises(TurnRefused):
        book.say(Message(role="user"), TurnFinished())
    assert book.state.version == 2


def test_an_append_looks_ahead_inside_itself() -> None:
    book = begun()
    book.say(TurnStarted(), ToolAsked(call="c"), ToolFinished(call="c"), TurnFinished(), TurnStarted())
    assert book.state.turns.count == 2


@pytest.mark.parametrize(
    "payload",
    [ToolAsked(call="c"), ToolStarted(call="c"), ToolFinished(call="c"), Delegation(to="c"), Linked(other="c")],
)
def test_a_draft_cannot_aim_a_payload_elsewhere(payload: Payload) -> None:
    book = begun()
    book.say(TurnStarted(), *([] if isinstance(payload, ToolAsked) else [ToolAsked(call="c")]))
    (event,) = book.do(do.Append(drafts=(Draft(payload, target="elsewhere"),)))
    assert event.target == "c"


def test_a_draft_may_aim_what_has_no_aim_of_its_own() -> None:
    (event,) = begun().do(do.Append(drafts=(Draft(Message(role="user"), target="scout", agent="a"),)))
    assert (event.target, event.agent) == ("scout", "a")


def test_an_append_has_events_but_not_too_many() -> None:
    with pytest.raises(Invalid, match="at least one"):
        decide(begun().state, do.Append(drafts=()), AT)
    many = (Draft(Message(role="user")),) * (MAX_EVENTS + 1)
    with pytest.raises(TooLarge, match="split it"):
        decide(begun().state, do.Append(drafts=many), AT)
    assert len(decide(begun().state, do.Append(drafts=many[1:]), AT)) == MAX_EVENTS


@pytest.mark.parametrize("wrong", [None, 5, "hello", ["hello"], [{"kind": "message"}], [None], [Draft({"a": 1})]])  # type: ignore[arg-type]
def test_what_is_no_event_is_refused(wrong: Any) -> None:
    with pytest.raises(Invalid, match=r"perdure\.events"):
        drafts_of(wrong)


@pytest.mark.parametrize(
    ("payload", "words"),
    [(ToolBound(), "needs a name"), (ScratchpadWritten(content="x" * ((1 << 20) + 1)), "scratchpad")],
)
def test_kinds_with_rules_of_their_own_keep_them(payload: Payload, words: str) -> None:
    with pytest.raises(Invalid, match=words):
        begun().say(payload)


# ── configuring, vars, scratchpads ────────────────────────────────────────────────────────────────


def test_configuring_writes_only_what_differs() -> None:
    state = begun(title="a", tags=("x",), metadata={"n": 1}, config=Config(model="m")).state
    same = do.Configure(title="a", tags=("x",), metadata={"n": 1}, config=Config(model="m"))
    assert decided(state, same) == []
    assert decided(state, do.Configure()) == []
    assert decided(state, do.Configure(title="b", tags=("x",))) == [Configured(title="b")]
    assert decided(state, do.Configure(title="", tags=(), metadata={})) == [Configured(title="", tags=(), metadata={})]


@pytest.mark.parametrize("metadata", [{"n": 1.0}, {"n": True}])
def test_one_and_true_are_different_settings(metadata: dict[str, Any]) -> None:
    state = begun(metadata={"n": 1}, config=Config(extra={"n": 1})).state
    assert decided(state, do.Configure(metadata=metadata)) == [Configured(metadata=metadata)]
    (configured,) = decided(state, do.Configure(config=Config(extra=metadata)))
    assert isinstance(configured, Configured)


def test_vars_that_do_not_differ_write_nothing() -> None:
    state = begun(vars={"a": 1}).state
    assert decided(state, do.SetVars(document={"a": 1})) == []
    assert len(decided(state, do.SetVars(document={"a": 2}))) == 1


@pytest.mark.parametrize(
    "command",
    [
        do.Configure(title="x"),
        do.SetVars(document={"a": 1}),
        do.WriteScratchpad(content="x"),
        do.Renew(expires_at=NOON + 1),
        do.TakeCheckpoint(),
    ],
)
def test_an_ended_session_stays_as_it_is_and_a_sleeping_one_may_be_set_up(command: do.Command) -> None:
    with pytest.raises(Terminal):
        decide(ended().state, command, AT)
    assert decide(asleep().state, command, AT)
    assert decide(begun(activate=False).state, command, AT)


def test_renewing_leads_forward() -> None:
    with pytest.raises(Invalid, match="past"):
        decide(begun().state, do.Renew(expires_at=NOON), AT)


# ── moving ────────────────────────────────────────────────────────────────────────────────────────


def test_suspending_closes_the_turn_checkpoints_and_only_then_moves() -> None:
    book = begun()
    book.say(TurnStarted(), ToolAsked(call="c", name="search"), ToolStarted(call="c", key="k"))
    interrupted, wish, moved = decided(book.state, do.MoveTo(event="suspend", reason="lunch"))
    assert interrupted == TurnInterrupted(reason="suspend", unfinished=(Unfinished("c", "search", "k", started=True),))
    assert wish == Wish(trigger=Trigger.LIFECYCLE, label="suspend")
    assert moved == Moved(event="suspend", source=Phase.ACTIVE, to=Phase.SUSPENDED, reason="lunch")


def test_completing_needs_criteria_children_and_turn_done() -> None:
    book = begun(exit_criteria=("booked",))
    with pytest.raises(GuardFailed, match="booked"):
        book.do(do.MoveTo(event="complete"))
    book.say(ExitCriterion(name="booked", met=True))
    book.take((draft(Spawned(child="kid")),))
    with pytest.raises(GuardFailed, match="1 children"):
        book.do(do.MoveTo(event="complete"))


def test_activating_needs_the_required_tools() -> None:
    book = begun(activate=False)
    book.take((draft(ToolBound(name="search", required=True)),))
    with pytest.raises(GuardFailed, match="search"):
        book.do(do.MoveTo(event="activate"))
    book.take((draft(ToolBound(name="search", required=True, substitute="grep")),))
    book.do(do.MoveTo(event="activate"))
    assert book.state.phase is Phase.ACTIVE


def test_recovering_and_rolling_back_close_the_open_turn() -> None:
    book = begun()
    assert decided(book.state, do.Recover()) == []
    with pytest.raises(TurnRefused):
        decide(book.state, do.RollBack(), AT)
    book.say(TurnStarted())
    assert decided(book.state, do.Recover(reason="crash", text="so f")) == [
        TurnInterrupted(reason="crash", text="so f")
    ]
    assert decided(book.state, do.RollBack(reason="oops")) == [TurnRolledBack(reason="oops")]


# ── money ─────────────────────────────────────────────────────────────────────────────────────────


def test_money_is_reserved_by_the_awake_and_settled_by_anyone() -> None:
    book = begun()
    book.do(do.Reserve(reservation="r", amount=5, purpose="answer"))
    book.do(do.MoveTo(event="suspend"))
    with pytest.raises(Suspended):
        book.do(do.Reserve(reservation="s", amount=5))
    book.do(do.Settle(reservation="r", cost=7))
    assert [event.data for event in book.events if event.kind in {"reserved", "settled", "overrun"}] == [
        Reserved(reservation="r", amount=5, purpose="answer"),
        Settled(reservation="r", amount=5, cost=7),
        Overrun(reservation="r", excess=2),
    ]


# ── merging, redacting ────────────────────────────────────────────────────────────────────────────

PLACE: dict[str, Any] = {"source": "s", "source_version": 9, "base_version": 3}


def test_merging_takes_over_what_differs_and_says_so() -> None:
    book = begun(vars={"a": 1})
    book.do(do.WriteScratchpad(content="mine"))
    command = do.MergeIn(
        **PLACE, policy="ours", document={"a": 2}, pads={"": "mine", "scout": "theirs"}, summary="They found a train."
    )
    book.do(command)
    kinds = [event.kind for event in book.events[-4:]]
    assert kinds == ["vars_patched", "scratchpad_written", "message", "merged"]
    assert book.events[-1].data == Merged(policy="ours", **PLACE)
    assert book.state.vars.document == {"a": 2}
    assert {name: pad.content for name, pad in book.state.scratchpads.pads.items()} == {"": "mine", "scout": "theirs"}


def test_a_merge_with_conflicts_waits_and_a_settling_one_ends_the_wait() -> None:
    book = begun()
    conflict = {"path": ["vars", "a"], "base": {}, "ours": {"value": 1}, "theirs": {"value": 2}}
    book.do(do.MergeIn(**PLACE, policy="escalate", document={}, pads={}, conflicts=(conflict,), conflict_id="k"))
    assert isinstance(book.events[-1].data, ConflictFound)
    assert list(book.state.links.conflicts) == ["k"]
    book.do(do.MergeIn(**PLACE, policy="resolved", document={"a": 2}, pads={}, settles="k"))
    assert (book.state.links.conflicts, book.state.links.merges) == ({}, 1)


def test_only_the_awake_merge() -> None:
    with pytest.raises(Suspended):
        asleep().do(do.MergeIn(**PLACE, policy="ours", document={}, pads={}))


def test_redacting_names_versions() -> None:
    with pytest.raises(Invalid, match="name the versions"):
        decide(begun().state, do.Redact(versions=()), AT)
    assert decided(ended().state, do.Redact(versions=(2, 3), reason="asked")) == [
        Redacted(versions=(2, 3), reason="asked")
    ]


# ── automatic checkpoints ─────────────────────────────────────────────────────────────────────────


def with_policy(**fields: Any) -> Logbook:
    return begun(config=Config(checkpoints=CheckpointPolicy(**fields)))


def triggers(book: Logbook) -> list[tuple[str, int]]:
    return [(item.trigger, item.version) for item in book.checkpoints]


def test_without_a_policy_nothing_is_taken() -> None:
    book = begun()
    book.at += 10**9 * SECOND
    book.say(Message(role="user"))
    assert book.checkpoints == []


def test_a_pre_mutation_checkpoint_holds_the_state_before_it() -> None:
    book = with_policy(pre_mutation=True)
    book.do(do.SetVars(document={"a": 1}))
    book.say(Message(role="user"))
    assert triggers(book) == [("pre_mutation", 2)]
    assert to_bytes(book.steps[2]) == book.checkpoints[0].payload


def test_an_event_checkpoint_holds_the_state_after_it() -> None:
    book = with_policy(on_kinds=("feedback",))
    book.say(Message(role="user"))
    book.say(Feedback(rating=5))
    assert triggers(book) == [("event", 4)]


def test_a_periodic_checkpoint_is_taken_with_the_first_append_after_its_time() -> None:
    book = with_policy(periodic=60)
    book.do(do.TakeCheckpoint())
    for seconds in (30, 30, 30, 30):
        book.at += seconds * SECOND
        book.say(Message(role="user"))
    assert [trigger for trigger, _ in triggers(book)] == ["manual", "periodic", "periodic"]


def test_an_adaptive_checkpoint_comes_sooner_when_more_changes() -> None:
    counts = []
    for pause in (50, 1):
        book = with_policy(adaptive=Adaptive(base=100, reference_rate=0.1))
        book.do(do.TakeCheckpoint())
        for count in range(200 // pause):
            book.at += pause * SECOND
            book.do(do.SetVars(document={"n": count}))
        counts.append(len(book.checkpoints))
    assert counts[1] > counts[0] > 1


def test_a_wish_is_enough() -> None:
    book = with_policy(periodic=1, on_kinds=("moved",), pre_mutation=True)
    book.at += 5 * SECOND
    book.do(do.MoveTo(event="suspend"))
    assert [trigger for trigger, _ in triggers(book)] == ["lifecycle"]


def test_nothing_decided_needs_no_checkpoint() -> None:
    state = with_policy(periodic=1).state
    assert with_automatic_checkpoints(state, (), NOON + 100 * SECOND) == ()


# ── any sequence of commands ──────────────────────────────────────────────────────────────────────

names = st.sampled_from(["a", "b"])
appends = st.lists(
    st.one_of(
        payloads.filter(lambda payload: payload.callers),
        st.builds(ToolAsked, call=names),
        st.builds(ToolFinished, call=names),
        st.sampled_from([TurnStarted(), TurnFinished(), Message(role="user")]),
    ),
    min_size=1,
    max_size=4,
)
policies = st.sampled_from(
    [
        None,
        CheckpointPolicy(full_every=3, on_kinds=("message",)),
        CheckpointPolicy(pre_mutation=True, critical=True),
        CheckpointPolicy(periodic=3, full_every=2),
        CheckpointPolicy(adaptive=Adaptive(base=10, least=1, most=20)),
    ]
)


class AnyCommands(RuleBasedStateMachine):
    """Random commands on one session; what is refused must change nothing, what is not must keep every promise."""

    def __init__(self) -> None:
        super().__init__()
        self.book = Logbook()
        self.overran = False

    @initialize(policy=policies, cap=st.none() | st.integers(0, 60), document=st.none() | similar_documents)
    def create(self, policy: CheckpointPolicy | None, cap: int | None, document: dict[str, Any] | None) -> None:
        config = Config(checkpoints=policy, max_cost=cap)
        self.book.begin(config=config, owner="ana", vars=document, exit_criteria=("done",))
        self.identity = self._identity()

    def _identity(self) -> tuple[Any, ...]:
        state = self.book.state
        return (state.session, state.tenant, state.origin.owner, state.origin.created_at, state.origin.lineage)

    def attempt(self, command: do.Command) -> None:
        before, version = self.book.state, self.book.state.version
        stored = to_bytes(before)
        try:
            events = self.book.do(command)
        except (Refused, Invalid, NotFound, BudgetExhausted):
            assert self.book.state is before
            assert to_bytes(before) == stored
            return
        assert [event.version for event in events] == list(range(version + 1, version + 1 + len(events)))
        self.overran = self.overran or any(event.kind == "overrun" for event in events)
        self._follow_phases(before.phase, events)

    def _follow_phases(self, phase: Phase, events: tuple[Any, ...]) -> None:
        for event in events:
            if event.kind == "moved":
                assert event.data.source is phase
                assert MOVES[phase, event.data.event].to is event.data.to
                phase = event.data.to
        assert self.book.state.phase is phase

    @rule(drawn=appends)
    def append(self, drawn: list[Payload]) -> None:
        self.attempt(do.Append(drafts=drafts(drawn)))

    @rule(document=similar_documents)
    def set_vars(self, document: dict[str, Any]) -> None:
        self.attempt(do.SetVars(document=document))

    @rule(content=st.text(max_size=5), agent=st.none() | names)
    def write_scratchpad(self, content: str, agent: str | None) -> None:
        self.attempt(do.WriteScratchpad(content=content, agent=agent))

    @rule(event=st.sampled_from(MOVE_NAMES))
    def move(self, event: str) -> None:
        self.attempt(do.MoveTo(event=event))

    @precondition(lambda self: self.book.state.phase in {Phase.SUSPENDED, Phase.RESUMED})
    @rule()
    def wake(self) -> None:
        self.attempt(do.MoveTo(event="resume"))
        self.attempt(do.MoveTo(event="reactivate"))

    @rule(name=names, amount=st.integers(-1, 30))
    def reserve(self, name: str, amount: int) -> None:
        self.attempt(do.Reserve(reservation=name, amount=amount))

    @rule(name=names, cost=st.integers(-1, 40))
    def settle(self, name: str, cost: int) -> None:
        self.attempt(do.Settle(reservation=name, cost=cost))

    @rule(label=names)
    def checkpoint(self, label: str) -> None:
        self.attempt(do.TakeCheckpoint(label=label))

    @rule(title=names, metadata=st.none() | similar_documents)
    def configure(self, title: str, metadata: dict[str, Any] | None) -> None:
        self.attempt(do.Configure(title=title, metadata=metadata))

    @rule(
        command=st.sampled_from([do.Recover(), do.RollBack(), do.Redact(versions=(1,)), do.Renew(expires_at=2 * NOON)])
    )
    def other(self, command: do.Command) -> None:
        self.attempt(command)

    @rule(document=similar_documents, pads=st.dictionaries(names, names, max_size=2), settles=st.none() | names)
    def merge(self, document: dict[str, Any], pads: dict[str, str], settles: str | None) -> None:
        self.attempt(do.MergeIn(**PLACE, policy="theirs", document=document, pads=pads, settles=settles))

    @rule(seconds=st.integers(0, 5))
    def wait(self, seconds: int) -> None:
        self.book.at += seconds * SECOND

    @invariant()
    def identity_never_changes(self) -> None:
        if self.book.events:
            assert self._identity() == self.identity

    @invariant()
    def the_version_is_the_number_of_events(self) -> None:
        assert self.book.state.version == len(self.book.events)

    @invariant()
    def the_state_is_the_fold_of_the_log(self) -> None:
        assert to_bytes(self.book.steps[-1]) == to_bytes(self.book.state)
        stored = to_bytes(self.book.state)
        assert to_bytes(states.from_bytes(stored)) == stored

    @invariant()
    def spent_and_reserved_stay_within_the_cap(self) -> None:
        account, budget = self.book.account, self.book.state.budget
        assert (account.spent, account.reserved) == (budget.spent, sum(budget.open.values()))
        if account.cap is not None:
            assert account.spent + account.reserved <= account.cap or (self.overran and account.paused)

    def teardown(self) -> None:
        """The log, read from its bytes, gives every state again; checkpoints restore theirs."""
        previous, state = chain.genesis(RAW), BLANK
        for item, digest in self.book.records:
            for event in record.read(record.from_bytes(record.to_bytes(item)), "tenant", previous):
                state = states.evolve(state, event)
                assert to_bytes(state) == to_bytes(self.book.steps[event.version])
            previous = digest
        for checkpoint in self.book.checkpoints:
            assert codec.encode(self.book.document(checkpoint.seq)) == to_bytes(self.book.steps[checkpoint.version])


TestAnyCommands = AnyCommands.TestCase
TestAnyCommands.settings = settings(
    max_examples=60, stateful_step_count=30, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)


@given(payloads, st.sampled_from(["active", "suspended", "ended", "init"]))
def test_no_payload_is_refused_in_another_way(payload: Payload, phase: str) -> None:
    book = {"active": begun, "suspended": asleep, "ended": ended}.get(phase, lambda: begun(activate=False))()
    try:
        book.say(payload)
    except (Refused, Invalid):
        assert book.state.version == len(book.events)


def test_moves_outside_the_table_change_nothing() -> None:
    book = ended()
    with pytest.raises(MoveRefused):
        book.do(do.MoveTo(event="suspend"))
    book.do(do.MoveTo(event="archive"))
    with pytest.raises(MoveRefused, match="nothing leads on"):
        book.do(do.MoveTo(event="archive"))
    assert [event.data.id for event in book.events if isinstance(event.data, CheckpointTaken)] == ["c1"]
    assert Relation.PEER.value == "peer"


@pytest.mark.parametrize(
    "command", [do.Redact(versions=(1,)), do.ExpireCheckpoints(ids=("c1",)), do.PinCheckpoint(id="c1", pinned=True)]
)
def test_housekeeping_calls_for_no_checkpoint(command: do.Command) -> None:
    book = with_policy(periodic=1, adaptive=Adaptive(base=1))
    book.do(do.TakeCheckpoint())
    book.at += 100 * SECOND
    assert len(book.do(command)) == 1
