"""The one decision: may this actor do this, to this, now? Pure, total, and no by default.

In this order, and whatever refuses first is the reason:

1. **tenant**: what belongs to another one is not there.
2. **token**: a session token opens its session and nothing else.
3. **scope**: the credential must be good for the action.
4. **role**: one of the actor's roles must allow it, in a session whose isolation lets that role in; or a rule must.
5. **rule**: no rule may deny it.
6. **field**: nothing may be written or asked for that the tenant's field rules close to the roles the actor has here.

An admin who gives a reason breaks the glass: that goes past role, isolation and fields into content, not past tenant,
scope or a rule that denies; the decision then says `override`, if it made a difference.

What does not depend on the session is decided first. So whoever may not see a session is refused in the same way,
whether it is foreign or missing, and such a refusal is `concealed`.
"""

from typing import Final

from perdure.core.access.fields import first_touch, within
from perdure.core.access.isolation import lets_in, owns
from perdure.core.access.roles import (
    BREAKING,
    CONTENT,
    CONTENT_THINGS,
    GRANTABLE,
    GRANTED,
    TABLE,
    WRITES,
    Action,
    Actor,
    Context,
    Decision,
    Granting,
    Reason,
    Resource,
    Role,
    Thing,
    Verb,
    scoped,
)
from perdure.core.access.rules import NO_RULING, Policy, Rule

ALLOWED: Final = Decision(True, Reason.ROLE)
BROKEN: Final = Decision(True, Reason.OVERRIDE)
MISSING: Final = Decision(False, Reason.MISSING, concealed=True)
FOREIGN: Final = Decision(False, Reason.FOREIGN, concealed=True)
APART: Final = Decision(False, Reason.ISOLATION)
OTHER_SESSION: Final = Decision(False, Reason.SESSION, concealed=True)
NO_SCOPE: Final = Decision(False, Reason.SCOPE)
NO_ROLE: Final = Decision(False, Reason.ROLE)
NOTHING: Final[Granting] = {}
_ADMIN_ALONE: Final = [Role.ADMIN]
_AUDITOR_ONLY: Final = frozenset({Role.AUDITOR})
_OUTSIDE: Final = frozenset(Action(verb, Thing.SESSION) for verb in TABLE[Role.ADMIN][Thing.SESSION])
"""What an admin may do to a session without seeing what is in it."""
_LOOK: Final = Action(Verb.READ, Thing.SESSION)


def decide(actor: Actor, action: Action, resource: Resource, context: Context, policy: Policy) -> Decision:
    """Whether the actor may do this, why, and which fields it must not see of what it gets."""
    if actor.tenant != resource.tenant:
        return MISSING
    if actor.session is not None and actor.session != resource.session:
        return OTHER_SESSION
    if action not in scoped(actor.scopes):
        return NO_SCOPE
    decision = _opened(actor, action, resource, context, policy)
    if context.override is not None and (decision.hidden or not decision.allowed) and _breaks(actor, action, context):
        decision = BROKEN if resource.exists else MISSING
    if policy.rules and decision.allowed:
        denial = _first(policy.rulings.get(action, NO_RULING).denying, actor, resource, context)
        if denial is not None:
            decision = Decision(False, Reason.RULE, by=denial.name)
    if decision.allowed or decision.reason is Reason.ROLE or decision.reason is Reason.MISSING:
        return decision
    return _told(decision, _sees(actor, action, resource, context, policy))


def _opened(actor: Actor, action: Action, resource: Resource, context: Context, policy: Policy) -> Decision:
    """What roles, rules that allow, and fields say."""
    granting = GRANTED.get(actor.roles, NOTHING).get(action, ())
    there = resource.exists or (action.verb is Verb.CREATE and action.thing is Thing.SESSION)
    opening = [role for role in granting if lets_in(role, actor, action, resource)] if there else []
    if opening:
        built_in = CONTENT if opening == _ADMIN_ALONE and action in _OUTSIDE else ()
        if not policy.fields and not built_in:
            return ALLOWED
        plays = frozenset(role for role in actor.roles if lets_in(role, actor, action, resource))
        return _with_fields(ALLOWED, plays, built_in, action, context, policy)
    rules = _allowing(actor, action, policy) if policy.rules else ()
    rule = _first(rules, actor, resource, context) if there else None
    if rule is not None:
        plays = actor.roles if owns(actor, resource) else actor.roles - {Role.OWNER}
        return _with_fields(Decision(True, Reason.RULE, by=rule.name), plays, (), action, context, policy)
    if not granting and not rules:
        return NO_ROLE
    return FOREIGN if there else MISSING


def _allowing(actor: Actor, action: Action, policy: Policy) -> tuple[Rule, ...]:
    """The rules that might open this to the actor: nothing that no role could do, and no content to a mere auditor."""
    if action not in GRANTABLE or (actor.roles == _AUDITOR_ONLY and action.thing in CONTENT_THINGS):
        return ()
    return policy.rulings.get(action, NO_RULING).allowing


def _with_fields(
    decision: Decision,
    plays: frozenset[Role],
    built_in: tuple[str, ...],
    action: Action,
    context: Context,
    policy: Policy,
) -> Decision:
    """The decision with what stays hidden, or its refusal by a field."""
    hidden = policy.hidden(plays)
    if built_in:
        hidden = (*built_in, *hidden)
    if context.fields:
        closed = None
        if action.verb in WRITES:
            closed = first_touch(context.fields, policy.barred(plays))
        elif hidden:
            closed = next((path for path in context.fields if within(path, hidden)), None)
        if closed is not None:
            return Decision(False, Reason.FIELD, by=closed)
    return Decision(True, decision.reason, hidden, decision.by) if hidden else decision


def _first(rules: tuple[Rule, ...], actor: Actor, resource: Resource, context: Context) -> Rule | None:
    for rule in rules:
        if rule.applies(actor, resource, context):
            return rule
    return None


def _breaks(actor: Actor, action: Action, context: Context) -> bool:
    """Whether the actor breaks the glass: an admin, with a reason, by a credential that is good for it."""
    needed = BREAKING.get(action)
    return (
        needed is not None
        and Role.ADMIN in actor.roles
        and bool(context.override and context.override.strip())
        and needed in scoped(actor.scopes)
    )


def _sees(actor: Actor, action: Action, resource: Resource, context: Context, policy: Policy) -> bool:
    """Whether the actor knows anyway that this is there: nothing is secret about it, it is theirs, or they may look."""
    if resource.session is None or owns(actor, resource):
        return True
    if action == _LOOK and not context.fields:
        return False  # that is what was refused
    return decide(actor, _LOOK, resource, Context(at=context.at, address=context.address), policy).allowed


def _told(refusal: Decision, seen: bool) -> Decision:
    """A refusal that depends on the session, as it may be told."""
    if refusal.reason is Reason.FOREIGN:
        return APART if seen else FOREIGN
    return refusal if seen else Decision(False, refusal.reason, by=refusal.by, concealed=True)
