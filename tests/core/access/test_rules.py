"""Rules over attributes, conditions and their spelling."""

import msgspec
import pytest

from perdure.core.access.roles import Context, Role
from perdure.core.access.rules import MAX_RULES, ROOTS, Condition, FieldRule, Policy, Rule, must_name_fields
from perdure.core.access.views import SAID, of_event, of_state
from perdure.core.errors import Invalid
from perdure.core.session.memories import MemoryKept
from tests.core.access.asking import actor, session

HOUR = 3_600_000_000
WHO, WHAT = actor(Role.VIEWER, kind="person"), session("bob", tags=("red",), phase="active", task="sorting")


def holds(condition: Condition, **circumstances: object) -> bool:
    return condition.holds(WHO, WHAT, Context(**circumstances))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("fits", "misses"),
    [
        ({"roles": (Role.ADMIN, Role.VIEWER)}, {"roles": (Role.ADMIN,)}),
        ({"kinds": ("person",)}, {"kinds": ("agent", "service")}),
        ({"names": ("cyd", "ann")}, {"names": ("bob",)}),
        ({"owners": ("bob",)}, {"owners": ("ann",)}),
        ({"tags": ("blue", "red")}, {"tags": ("blue",)}),
        ({"phases": ("active",)}, {"phases": ("suspended",)}),
        ({"tasks": ("sorting",)}, {"tasks": ("packing",)}),
    ],
)
def test_a_condition_holds_when_one_of_each_list_fits(fits: dict[str, object], misses: dict[str, object]) -> None:
    assert holds(Condition(**fits))  # type: ignore[arg-type]
    assert not holds(Condition(**misses))  # type: ignore[arg-type]


def test_all_that_a_condition_asks_must_hold() -> None:
    assert holds(Condition())
    assert not holds(Condition(names=("ann",), owners=("ann",)))


@pytest.mark.parametrize(
    ("address", "inside"),
    [
        ("10.1.2.3", True),
        ("::ffff:10.1.2.3", True),
        ("fd00::1", True),
        ("11.1.2.3", False),
        ("fe80::1%eth0", False),
        (None, False),
        ("", False),
        ("10.1.2", False),
        ("somewhere", False),
    ],
)
def test_an_address_is_in_a_network_or_not(address: str | None, inside: bool) -> None:
    assert holds(Condition(networks=("10.0.0.0/8", "fd00::/8")), address=address) is inside


@pytest.mark.parametrize(
    ("hours", "inside", "outside"),
    [
        ("08:00-18:00", (8, 12, 17), (7, 18, 23)),
        ("22:00-06:00", (22, 0, 5), (6, 12, 21)),
        ("12:00-24:00", (12, 23), (0, 11)),
    ],
)
def test_hours_are_of_the_day_in_utc_and_may_pass_midnight(
    hours: str, inside: tuple[int, ...], outside: tuple[int, ...]
) -> None:
    days = 20_000 * 24
    assert all(holds(Condition(hours=hours), at=(days + hour) * HOUR) for hour in inside)
    assert not any(holds(Condition(hours=hours), at=(days + hour) * HOUR) for hour in outside)


def test_a_rule_does_not_apply_where_its_exception_holds() -> None:
    rule = Rule(effect="deny", when=Condition(tags=("red",)), unless=Condition(networks=("10.0.0.0/8",)))
    assert rule.applies(WHO, WHAT, Context())
    assert not rule.applies(WHO, WHAT, Context(address="10.0.0.1"))


@pytest.mark.parametrize("text", ["10.0.0.1/8", "10.0.0.0/40", "office", ""])
def test_what_is_no_network_is_refused(text: str) -> None:
    with pytest.raises(Invalid, match="write it as"):
        Condition(networks=(text,))


@pytest.mark.parametrize(
    "text", ["8-18", "08:00", "08:00-18:60", "25:00-26:00", "24:00-06:00", "08:00-", "-", "²2:00-23:00"]
)
def test_what_is_no_time_of_day_is_refused(text: str) -> None:
    with pytest.raises(Invalid, match="write it as"):
        Condition(hours=text)


def test_what_is_no_action_or_no_path_is_refused() -> None:
    with pytest.raises(Invalid, match="not an action"):
        Rule(effect="deny", actions=("fly:turns",))
    with pytest.raises(Invalid, match="not a path"):
        FieldRule(path="vars..salary")


def test_a_policy_has_a_limit() -> None:
    with pytest.raises(Invalid, match="at most"):
        Policy(rules=(Rule(effect="deny"),) * (MAX_RULES + 1))


def test_a_policy_survives_being_written_down() -> None:
    policy = Policy(
        rules=(
            Rule(
                effect="deny",
                name="night",
                actions=("write:*",),
                when=Condition(roles=(Role.AGENT,), hours="22:00-06:00"),
            ),
        ),
        fields=(FieldRule(path="vars.salary", read=(Role.OWNER,), write=()),),
    )
    assert policy.rulings
    assert msgspec.convert(msgspec.to_builtins(policy), Policy) == policy
    assert msgspec.to_builtins(Policy()) == {}


def test_who_may_not_read_a_field_may_not_write_it_unless_the_rule_says_so() -> None:
    policy = Policy(
        fields=(
            FieldRule(path="vars.a", read=(Role.OWNER,)),
            FieldRule(path="vars.b", read=(Role.OWNER,), write=(Role.AGENT,)),
            FieldRule(path="vars.c", write=()),
        )
    )
    agent = frozenset({Role.AGENT})
    assert policy.hidden(agent) == ("vars.a", "vars.b")
    assert policy.barred(agent) == ("vars.a", "vars.c")
    assert policy.hidden(frozenset({Role.OWNER, Role.AGENT})) == ()


def test_where_several_rules_speak_of_a_field_all_must_agree() -> None:
    policy = Policy(fields=(FieldRule(path="vars.a", read=(Role.OWNER,)), FieldRule(path="vars.a", read=(Role.AGENT,))))
    assert policy.hidden(frozenset({Role.OWNER})) == ("vars.a",)
    assert policy.hidden(frozenset({Role.OWNER, Role.AGENT})) == ()


@pytest.mark.parametrize("root", ROOTS)
def test_every_field_that_a_rule_may_name_is_one_that_can_be_hidden(root: str) -> None:
    must_name_fields(Policy(fields=(FieldRule(path=root, read=()),)))
    origin = {"title": "x", "tags": ["x"], "metadata": {"x": 1}, "config": {"x": 1}}
    state = {"origin": origin, "vars": {"document": {"x": 1}}, "scratchpads": {"pads": {"": "x"}}, "turns": {"x": 1}}
    kept = {"id": "m1", "content": "x"}
    assert of_state(state, (root,)) != state or of_event(MemoryKept.kind, kept, (root,)) == {}
    assert set(SAID) <= {*ROOTS, "conversation"}
