"""Which rows of a list whoever asks may see, and what of them.

Invariant: a row is shown only to those who may read its session, without what is hidden from them there, and is found
only by what is not. Lists, searches and counts never tell of any other.
"""

from typing import Any, Final

import msgspec

from perdure.core.access.decide import decide
from perdure.core.access.fields import first_touch, spelled
from perdure.core.access.roles import Action, Actor, Context, Decision, Reason, Resource, Role, Thing, Verb
from perdure.core.access.rules import Policy
from perdure.core.errors import ColdUnreachable, KeyMissing, SessionIntegrity, Tampered
from perdure.edge.http.asking import Ask
from perdure.edge.http.entrance import OVERRIDE
from perdure.edge.http.reaching import READ_SESSION, READ_TURNS, resource_of, state_of
from perdure.ports.store import Row

LIST_SESSION: Final = Action(Verb.LIST, Thing.SESSION)
UNREADABLE: Final = (ColdUnreachable, KeyMissing, SessionIntegrity, Tampered)
"""What keeps the log of one session from being read, and leaves all others as they are."""


class Sight:
    """What one request may see of the sessions that it finds by some conditions."""

    def __init__(self, ask: Ask, conditions: dict[str, Any]) -> None:
        self._ask = ask
        self._asked = searched_by(conditions)
        self._words = conditions.get("text") is not None
        self._context = Context(
            at=ask.node.tenants.ambient.now(),
            address=ask.request.address,
            override=ask.request.headers.get(OVERRIDE) if ask.decision.reason is Reason.OVERRIDE else None,
        )

    async def hidden(self, row: Row) -> tuple[str, ...] | None:
        """The fields of a row that must not be shown; None when the row must not be."""
        resource = await self._resource(row)
        return None if resource is None else self._hidden(resource)

    def all_seen(self, owner: str | None) -> bool:
        """Whether nothing would be kept back of the sessions of an owner, or of everybody's, whatever they are."""
        actor, policy = self._ask.actor, self._ask.policy
        owners = (actor.name, "") if owner is None else (owner,)
        if policy.rules or any(isolation_matters(actor, policy, own=each == actor.name) for each in owners):
            return False
        samples = (Resource(tenant=actor.tenant, session="", owner=each) for each in owners)
        return all(self._hidden(sample) is not None for sample in samples)

    async def _resource(self, row: Row) -> Resource | None:
        """A session as access sees it: what changes as the row has it, whom it lets in as its state has it."""
        ask = self._ask
        if not isolation_matters(ask.actor, ask.policy, own=row.owner == ask.actor.name):
            known = Resource(tenant=row.tenant, session=row.session, owner=row.owner)
        else:
            try:
                state = await state_of(ask, row.session)
            except UNREADABLE:
                return None
            if state is None:
                return None
            known = resource_of(state)
        return msgspec.structs.replace(known, phase=row.phase, tags=row.tags)

    def _hidden(self, resource: Resource) -> tuple[str, ...] | None:
        decision = self._decided(READ_SESSION, resource)
        if not decision.allowed or first_touch(self._asked, decision.hidden) is not None:
            return None
        if self._ask.policy.rules and not self._decided(LIST_SESSION, resource).allowed:
            return None
        if self._words and not self._decided(READ_TURNS, resource).allowed:
            return None
        return decision.hidden

    def _decided(self, action: Action, resource: Resource) -> Decision:
        return decide(self._ask.actor, action, resource, self._context, self._ask.policy)


def searched_by(conditions: dict[str, Any]) -> tuple[str, ...]:
    """The fields that conditions ask for the content of."""
    found = [spelled(("metadata", name)) for name in conditions.get("metadata") or ()]
    found += [name for name in ("title", "tags") if conditions.get(name)]
    return (*found, "turns") if conditions.get("text") is not None else tuple(found)


def isolation_matters(actor: Actor, policy: Policy, *, own: bool) -> bool:
    """Whether it depends on whom a session lets in, what an actor may see of one that is their own, or is not; else
    owner, phase and tags are enough to decide.
    """
    if any(rule.when.tasks or (rule.unless is not None and rule.unless.tasks) for rule in policy.rules):
        return True
    if Role.AGENT in actor.roles:
        return True
    if own:
        return actor.kind == "agent" or actor.agent is not None or actor.task is not None
    return Role.VIEWER in actor.roles
