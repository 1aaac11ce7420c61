"""One decision, cell by cell: every role, verb, thing, field and relation, and what holds whatever is asked."""

from itertools import product

import pytest
from hypothesis import given, settings
from msgspec.structs import replace

from perdure.core.access.decide import decide
from perdure.core.access.roles import ACTIONS, Action, Actor, Context, Decision, Resource, Role, Thing, Verb, scoped
from perdure.core.access.rules import OPEN, Condition, FieldRule, Policy, Rule
from tests.core.access.asking import ACTORS, ALL_ACTIONS, CONTEXTS, POLICIES, RESOURCES, actor, session

LETTERS = {
    "l": Verb.LIST,
    "c": Verb.CREATE,
    "r": Verb.READ,
    "w": Verb.WRITE,
    "d": Verb.DELETE,
    "m": Verb.MOVE,
    "b": Verb.BRANCH,
    "s": Verb.SHARE,
    "x": Verb.EXPORT,
    "i": Verb.ISSUE,
    "o": Verb.OVERRIDE,
}
# What a role may do where it counts; `glass` is an admin with a reason.
ALLOWED = """
              owner      agent   viewer   auditor   admin     glass
session       lcrwdbsx   lr      lr       -         lro       lrwo
turns         lcrw       lcrw    lr       -         o         lcrwo
log           lcrwdx     lcrw    -        -         o         lcrwo
state         lcrwd      lcrw    -        -         o         lcrwo
scratchpad    lcrwd      lcrw    -        -         o         lcrwo
checkpoints   lcrwdb     lcrw    -        -         o         lcrwo
lifecycle     lrwm       lr      -        -         lrwm      lrwm
budget        lrw        lr      -        -         o         lrwo
blobs         lcrwd      lcrw    -        -         o         lcrwo
memory        lcrwdmsx   lcrw    lr       -         lmio      lrmio
metrics       lr         lr      lr       -         lr        lr
traces        lr         -       -        lr        o         lro
audit         -          -       -        lrx       -         -
principals    -          -       -        -         lcrwd     lcrwd
keys          -          -       -        -         lcrwdi    lcrwdi
tokens        lrid       -       -        -         lrd       lrd
policies      -          -       -        -         lcrwd     lcrwd
webhooks      -          -       -        -         lcrwd     lcrwd
people        -          -       -        -         lrdx      lrdx
store         m          -       -        -         lcrwdmx   lcrwdmx
"""
# Where a role counts. `acting` is an agent's, for the session's owner; `permitted` has a permission in the session.
COUNTS = """
              owner      agent   viewer   auditor   admin     glass
own           yes        yes     yes      yes       yes       yes
named         no         yes     yes      yes       yes       yes
acting        no         yes     no       yes       yes       yes
permitted     no         yes     no       yes       yes       yes
foreign       no         no      no       yes       yes       yes
tenant's      no         no      no       yes       yes       yes
missing       no         no      no       no        no        no
abroad        no         no      no       no        no        no
"""
RELATIONS: dict[str, Resource] = {
    "own": session(),
    "named": session("bob", users=("cyd", "ann")),
    "acting": session("carl"),
    "permitted": session("bob", agents={"ann": "read_write"}),
    "foreign": session("bob", users=("cyd",), agents={"cyd": "read_write"}),
    "tenant's": Resource(tenant="t", owner="bob"),
    "missing": session("", exists=False),
    "abroad": session(tenant="u", users=("ann",), agents={"ann": "read_write"}),
}
FIELDS = ("title", "tags", "metadata.team", "config.system_prompt", "vars.salary", "scratchpad")
WRITING = frozenset("cwdmbsio")


def grid(text: str) -> dict[str, dict[str, str]]:
    """Rows by their first word, cells by the word above them."""
    head, *rows = [line.split() for line in text.strip().splitlines()]
    return {row[0]: dict(zip(head, row[1:], strict=True)) for row in rows}


CELLS, PLACES = grid(ALLOWED), grid(COUNTS)
COLUMNS = ("owner", "agent", "viewer", "auditor", "admin", "glass")


def asked(column: str, relation: str, verb: Verb, thing: Thing, policy: Policy = OPEN, *fields: str) -> Decision:
    """What is decided for somebody who has only the column's role."""
    role = Role.ADMIN if column == "glass" else Role(column)
    who = actor(role, acting_for="carl" if relation == "acting" else None)
    context = Context(fields=fields, override="the house is on fire" if column == "glass" else None)
    return decide(who, Action(verb, thing), RELATIONS[relation], context, policy)


def expected(column: str, relation: str, letter: str, thing: str) -> bool:
    if PLACES[relation][column] == "no":
        # Anyone whose role lists may ask for the list; a creator's own session need not be there yet.
        listing = (relation, thing, letter) == ("tenant's", "session", "l") and "l" in CELLS[thing][column]
        making = (relation, thing, letter) == ("missing", "session", "c") and "c" in CELLS[thing][column]
        return listing or making
    return letter in CELLS[thing][column]


def test_the_grid_names_every_thing_every_verb_and_every_role() -> None:
    assert set(CELLS) == {thing.value for thing in Thing}
    assert set(LETTERS.values()) == set(Verb)
    assert {*COLUMNS} - {"glass"} == {role.value for role in Role}
    assert set(PLACES) == set(RELATIONS)


@pytest.mark.parametrize("relation", list(RELATIONS))
@pytest.mark.parametrize("column", COLUMNS)
def test_every_role_verb_and_thing_is_decided_as_the_grid_says(column: str, relation: str) -> None:
    wrong = [
        f"{verb.value}:{thing.value}"
        for (letter, verb), thing in product(LETTERS.items(), Thing)
        if asked(column, relation, verb, thing).allowed != expected(column, relation, letter, thing.value)
    ]
    assert wrong == []


@pytest.mark.parametrize("keeper", list(Role))
@pytest.mark.parametrize("column", COLUMNS)
def test_a_field_kept_for_one_role_is_closed_to_every_other(column: str, keeper: Role) -> None:
    """Every role, verb, thing and field: what only `keeper` may read and write."""
    wrong = []
    for field in FIELDS:
        policy = Policy(fields=(FieldRule(path=field, read=(keeper,), write=(keeper,)),))
        for (letter, verb), thing in product(LETTERS.items(), Thing):
            may = expected(column, "own", letter, thing.value)
            # Breaking the glass opens fields, too, where it opens anything; elsewhere an admin is an admin.
            opens = column == "glass" and "o" in CELLS[thing.value]["glass"] and letter in CELLS[thing.value]["glass"]
            opens = opens and letter != "o" and (letter in "lr" or letter not in CELLS[thing.value]["admin"])
            closed = keeper.value != ("admin" if column == "glass" else column) and not opens
            whole, narrow = asked(column, "own", verb, thing, policy), asked(column, "own", verb, thing, policy, field)
            content = column == "admin" and (thing, letter) in {(Thing.SESSION, "l"), (Thing.SESSION, "r")}
            good = (
                whole.allowed == may
                and any(f"{field}.".startswith(f"{path}.") for path in whole.hidden) == (may and (closed or content))
                and narrow.allowed == (may and not closed and not content)
                and (narrow.reason == "field") == (may and (closed or content))
            )
            if not good:
                wrong.append(f"{verb.value}:{thing.value} {field}")
    assert wrong == []


def test_an_admin_sees_of_a_session_nothing_that_people_put_there() -> None:
    document = {"session": "s1", "owner": "ann", "phase": "active", **dict.fromkeys(("title", "tags", "metadata"), "x")}
    row = asked("admin", "foreign", Verb.READ, Thing.SESSION)
    assert set(document) & set(row.hidden) == {"title", "tags", "metadata"}
    assert asked("glass", "foreign", Verb.READ, Thing.SESSION).hidden == ()


def test_breaking_the_glass_is_told_only_where_it_made_a_difference() -> None:
    assert asked("glass", "foreign", Verb.READ, Thing.TURNS) == Decision(True, "override")  # type: ignore[arg-type]
    assert asked("glass", "foreign", Verb.MOVE, Thing.LIFECYCLE).reason == "role"


@pytest.mark.parametrize("reason", [None, "", "   "])
def test_the_glass_does_not_break_without_a_reason(reason: str | None) -> None:
    context = Context(override=reason)
    assert not decide(actor(Role.ADMIN), ACTIONS["read:turns"], session("bob"), context, OPEN).allowed


def test_a_credential_must_be_good_for_breaking_the_glass() -> None:
    context = Context(override="the house is on fire")
    for scopes, allowed in {("read:*",): False, ("read:*", "override:turns"): True}.items():
        who = actor(Role.ADMIN, scopes=scopes)
        assert decide(who, ACTIONS["read:turns"], session("bob"), context, OPEN).allowed is allowed


@pytest.mark.parametrize("column", COLUMNS)
def test_foreign_and_missing_look_alike(column: str) -> None:
    """Unless the actor may look at the session, the two refusals differ in nothing that is told."""
    for verb, thing in product(Verb, Thing):
        if asked(column, "foreign", Verb.READ, Thing.SESSION).allowed or (verb, thing) == (Verb.CREATE, Thing.SESSION):
            continue
        foreign, missing = asked(column, "foreign", verb, thing), asked(column, "missing", verb, thing)
        if not foreign.allowed:
            assert (foreign.concealed, foreign.concealed or foreign.reason) == (
                missing.concealed,
                missing.concealed or missing.reason,
            )
        assert asked(column, "abroad", verb, thing) == Decision(False, "missing", concealed=True)  # type: ignore[arg-type]


def test_whoever_sees_a_session_is_told_plainly_what_is_not_theirs_to_do() -> None:
    friend = actor(Role.OWNER, Role.VIEWER)
    shared = session("bob", users=("ann",))
    assert decide(friend, ACTIONS["read:turns"], shared, Context(), OPEN).allowed
    refusal = decide(friend, ACTIONS["delete:session"], shared, Context(), OPEN)
    assert (refusal.reason, refusal.concealed) == ("isolation", False)


def test_a_session_token_opens_its_session_only() -> None:
    who = actor(Role.OWNER, session="s1")
    assert decide(who, ACTIONS["read:turns"], session(), Context(), OPEN).allowed
    for other in (replace(session(), session="s2"), replace(session(), session=None)):
        assert decide(who, ACTIONS["list:session"], other, Context(), OPEN).reason == "session"


def test_what_no_session_token_could_reach_a_rule_does_not_open_either() -> None:
    everything = Policy(rules=(Rule(effect="allow"),))
    who = actor(Role.OWNER, session="s1")
    assert not decide(who, ACTIONS["read:turns"], replace(session("bob"), session="s2"), Context(), everything).allowed


def test_a_rule_opens_what_roles_do_not() -> None:
    policy = Policy(
        rules=(Rule(effect="allow", name="open", actions=("read:turns",), when=Condition(tags=("public",))),)
    )
    who = actor(Role.VIEWER)
    assert decide(who, ACTIONS["read:turns"], session("bob", tags=("public",)), Context(), policy) == Decision(
        True,
        "rule",  # type: ignore[arg-type]
        by="open",
    )
    assert decide(who, ACTIONS["read:turns"], session("bob"), Context(), policy).concealed


def test_a_rule_shows_no_content_to_a_mere_auditor() -> None:
    everything = Policy(rules=(Rule(effect="allow"),))
    assert not decide(actor(Role.AUDITOR), ACTIONS["read:turns"], session("bob"), Context(), everything).allowed
    assert decide(actor(), ACTIONS["read:turns"], session("bob"), Context(), everything).allowed


def test_whom_a_rule_lets_in_is_not_the_owner_for_its_fields() -> None:
    policy = Policy(
        rules=(Rule(effect="allow", actions=("read:state",)),),
        fields=(FieldRule(path="vars.salary", read=(Role.OWNER,)),),
    )
    assert decide(actor(Role.OWNER), ACTIONS["read:state"], session("bob"), Context(), policy).hidden == (
        "vars.salary",
    )
    assert decide(actor(Role.OWNER), ACTIONS["read:state"], session(), Context(), policy).hidden == ()


def test_a_denial_by_rule_is_plain_to_the_owner_and_concealed_from_others() -> None:
    policy = Policy(rules=(Rule(effect="deny", name="closed", when=Condition(tags=("secret",))),))
    own = decide(actor(Role.OWNER), ACTIONS["read:turns"], session(tags=("secret",)), Context(), policy)
    assert (own.reason, own.by, own.concealed) == ("rule", "closed", False)
    shared = session("bob", tags=("secret",), users=("ann",))
    assert decide(actor(Role.VIEWER), ACTIONS["read:turns"], shared, Context(), policy).concealed


@pytest.mark.parametrize("closing", [{"fields": (FieldRule(path="vars", read=()),)}, {"rules": (Rule(effect="deny"),)}])
def test_what_a_rule_opens_and_another_closes_looks_like_what_is_missing(closing: dict[str, tuple[Rule, ...]]) -> None:
    rules = (Rule(effect="allow", actions=("read:state",)), *closing.get("rules", ()))
    policy = Policy(rules=rules, fields=closing.get("fields", ()))  # type: ignore[arg-type]
    context = Context(fields=("vars",))
    for resource in (session("bob"), session("", exists=False)):
        refusal = decide(actor(Role.VIEWER), ACTIONS["read:state"], resource, context, policy)
        assert (refusal.allowed, refusal.concealed) == (False, True)


def test_a_part_of_a_hidden_field_cannot_be_asked_for() -> None:
    policy = Policy(fields=(FieldRule(path="metadata.pay", read=(Role.ADMIN,)),))
    for field, allowed in {
        "metadata.pay.net": False,
        "metadata.pay": False,
        "metadata": True,
        "metadata.x": True,
    }.items():
        context = Context(fields=(field,))
        assert decide(actor(Role.OWNER), ACTIONS["list:session"], session(), context, policy).allowed is allowed, field


# ── whatever is asked ─────────────────────────────────────────────────────────────────────────────

many = settings(max_examples=150)


@many
@given(ACTORS, ALL_ACTIONS, RESOURCES, CONTEXTS, POLICIES)
def test_every_question_has_an_answer_and_the_same_one_again(
    who: Actor, action: Action, resource: Resource, context: Context, policy: Policy
) -> None:
    answer = decide(who, action, resource, context, policy)
    assert answer == decide(who, action, resource, context, policy)
    assert not (answer.allowed and answer.concealed)
    assert answer.allowed or answer.hidden == ()


@many
@given(ACTORS, ALL_ACTIONS, RESOURCES, CONTEXTS, POLICIES)
def test_nothing_of_another_tenant_is_there(
    who: Actor, action: Action, resource: Resource, context: Context, policy: Policy
) -> None:
    abroad = replace(resource, tenant=who.tenant + "x")
    assert decide(who, action, abroad, context, policy) == Decision(False, "missing", concealed=True)  # type: ignore[arg-type]


@many
@given(ACTORS, ALL_ACTIONS, RESOURCES, CONTEXTS, POLICIES)
def test_without_a_role_and_without_a_rule_that_allows_nothing_is_allowed(
    who: Actor, action: Action, resource: Resource, context: Context, policy: Policy
) -> None:
    denying = Policy(rules=tuple(rule for rule in policy.rules if rule.effect == "deny"), fields=policy.fields)
    assert not decide(replace(who, roles=frozenset()), action, resource, context, denying).allowed


@many
@given(ACTORS, ALL_ACTIONS, RESOURCES, CONTEXTS, POLICIES)
def test_a_rule_that_denies_wins(
    who: Actor, action: Action, resource: Resource, context: Context, policy: Policy
) -> None:
    stricter = Policy(rules=(*policy.rules, Rule(effect="deny", actions=(str(action),))), fields=policy.fields)
    assert not decide(who, action, resource, context, stricter).allowed


@many
@given(ACTORS, ALL_ACTIONS, RESOURCES, CONTEXTS, POLICIES)
def test_scopes_only_narrow(who: Actor, action: Action, resource: Resource, context: Context, policy: Policy) -> None:
    narrow = decide(who, action, resource, context, policy)
    if narrow.allowed:
        assert action in scoped(who.scopes)
        assert decide(replace(who, scopes=("*",)), action, resource, context, policy).allowed


@many
@given(ACTORS, ALL_ACTIONS, RESOURCES, CONTEXTS, POLICIES)
def test_no_rule_allows_what_no_role_could(
    who: Actor, action: Action, resource: Resource, context: Context, policy: Policy
) -> None:
    generous = Policy(rules=(*policy.rules, Rule(effect="allow")), fields=policy.fields)
    if decide(who, action, resource, context, generous).allowed:
        letter = next(letter for letter, verb in LETTERS.items() if verb is action.verb)
        assert any(letter in cell for cell in CELLS[action.thing.value].values())


@many
@given(ACTORS, ALL_ACTIONS, RESOURCES, CONTEXTS, POLICIES)
def test_whoever_may_not_look_cannot_tell_a_session_from_none(
    who: Actor, action: Action, resource: Resource, context: Context, policy: Policy
) -> None:
    there = replace(resource, tenant=who.tenant, session=resource.session or "s1", exists=True)
    look = decide(who, ACTIONS["read:session"], there, Context(at=context.at, address=context.address), policy)
    if look.allowed or there.owner == who.name or there.parent_owner == who.name or str(action) == "create:session":
        return
    found = decide(who, action, there, context, policy)
    missing = decide(who, action, Resource(tenant=who.tenant, session=there.session, exists=False), context, policy)
    if not found.allowed:
        assert found.concealed == missing.concealed
        assert found.concealed or found.reason == missing.reason
