"""Actors, resources, circumstances and policies of all kinds, for whoever asks for a decision."""

from hypothesis import strategies as st

from perdure.core.access.isolation import MODELS
from perdure.core.access.roles import ACTIONS, GRANTED, Actor, Context, Resource, Role
from perdure.core.access.rules import Condition, FieldRule, Policy, Rule

NAMES = st.sampled_from(["ann", "bob", "bot", ""])
TENANTS = st.sampled_from(["t", "u", ""])
SESSIONS = st.sampled_from([None, "s1", "s2"])
TASKS = st.sampled_from([None, "sorting", "packing"])
WORDS = st.sampled_from(["red", "blue", "active", "*", ""])
SCOPES = st.lists(
    st.sampled_from([*ACTIONS, "*", "read:*", "write:*", "*:turns", "nonsense", ":", ""]), max_size=4
).map(tuple)
PATHS = st.sampled_from(
    [
        "vars",
        "vars.salary",
        "vars.*",
        "vars.staff.0.pay",
        "metadata",
        "metadata.*",
        "title",
        "scratchpad",
        "config.model",
    ]
)
ADDRESSES = st.sampled_from([None, "10.1.2.3", "::ffff:10.1.2.3", "fd00::1", "203.0.113.9", "no address"])
ALL_ACTIONS = st.sampled_from(list(ACTIONS.values()))


ACTORS = st.builds(
    Actor,
    tenant=TENANTS,
    principal=st.just("prn_1"),
    name=NAMES,
    kind=st.sampled_from(["person", "agent", "service"]),
    roles=st.sampled_from(list(GRANTED)),
    scopes=st.one_of(st.just(("*",)), st.just(("*",)), SCOPES),
    task=TASKS,
    agent=st.sampled_from([None, "critic"]),
    acting_for=st.one_of(st.none(), NAMES),
    session=st.sampled_from([None, None, "s1"]),
)
RESOURCES = st.builds(
    Resource,
    tenant=TENANTS,
    session=SESSIONS,
    owner=NAMES,
    model=st.sampled_from([*MODELS, "unheard of"]),
    task=TASKS,
    users=st.sampled_from([(), ("ann",), ("bob", "bot"), ("",)]),
    agents=st.sampled_from(
        [{}, {"critic": "read"}, {"bot": "read_write", "ann": "none"}, {"critic": "odd", "": "read"}]
    ),
    phase=WORDS,
    tags=st.sampled_from([(), ("red",), ("blue", "")]),
    parent_owner=NAMES,
    parent_task=TASKS,
    exists=st.sampled_from([True, True, True, False]),
)
CONTEXTS = st.builds(
    Context,
    at=st.integers(-(2**63), 2**63),
    address=st.one_of(ADDRESSES, st.text(max_size=12)),
    fields=st.one_of(st.just(()), st.tuples(PATHS), st.tuples(PATHS, st.text(max_size=8))),
    override=st.sampled_from([None, "", "  ", "the house is on fire"]),
)
CONDITIONS = st.sampled_from(
    [
        Condition(),
        Condition(roles=(Role.VIEWER, Role.ADMIN)),
        Condition(kinds=("agent",), names=("bot", "ann")),
        Condition(owners=("ann",)),
        Condition(tags=("red", "blue"), phases=("active", "red")),
        Condition(tasks=("sorting",)),
        Condition(networks=("10.0.0.0/8", "fd00::/8")),
        Condition(hours="22:00-06:00"),
    ]
)
RULES = st.builds(
    Rule,
    effect=st.sampled_from(["allow", "deny"]),
    name=st.sampled_from(["first", "second"]),
    actions=st.sampled_from([("*",), ("*",), ("read:*", "*:turns"), ("write:*", "list:session"), ()]),
    when=CONDITIONS,
    unless=st.one_of(st.none(), CONDITIONS),
)
FIELD_RULES = st.builds(
    FieldRule,
    path=PATHS,
    read=st.sampled_from([None, (), (Role.OWNER,), (Role.AGENT, Role.ADMIN)]),
    write=st.sampled_from([None, (), (Role.OWNER, Role.VIEWER)]),
)
POLICIES = st.builds(
    Policy, rules=st.lists(RULES, max_size=3).map(tuple), fields=st.lists(FIELD_RULES, max_size=2).map(tuple)
)


def actor(*roles: Role, name: str = "ann", tenant: str = "t", **more: object) -> Actor:
    """Somebody in these roles."""
    return Actor(tenant=tenant, principal="prn_1", name=name, roles=frozenset(roles), **more)  # type: ignore[arg-type]


def session(owner: str = "ann", tenant: str = "t", **more: object) -> Resource:
    """A session."""
    return Resource(tenant=tenant, session="s1", owner=owner, **more)  # type: ignore[arg-type]
