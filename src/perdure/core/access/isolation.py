"""Whom a session lets in: per user, per task, per agent, nested.

======== ==================================================================================================
per_user its owner and the users it names; an agent that acts for the owner, is named, or has a permission
per_task these, and whoever works on a task only if it is the session's; an agent always works on one
per_agent these, and an agent only with a permission: `read` lets it read, `read_write` do both, `none` neither
nested   a child: its owner is its parent's, and its task is its own, so an agent of the parent's task is out
======== ==================================================================================================

An empty model is per_user. A permission that names an agent binds it under every model. Of a model that is not known,
only the owner is let in. Auditors and admins need not be: their roles count in the whole tenant, and reach no content.
"""

from typing import Final

from perdure.core.access.roles import WRITES, Action, Actor, Resource, Role, Thing, Verb

PER_USER: Final = "per_user"
PER_TASK: Final = "per_task"
PER_AGENT: Final = "per_agent"
NESTED: Final = "nested"
MODELS: Final = ("", PER_USER, PER_TASK, PER_AGENT, NESTED)

NONE: Final = "none"
READ: Final = "read"
READ_WRITE: Final = "read_write"
PERMISSIONS: Final = (NONE, READ, READ_WRITE)

_KNOWN: Final = frozenset(MODELS)
_BY_TASK: Final = frozenset({PER_TASK, NESTED})
_EVERYWHERE: Final = frozenset({Role.AUDITOR, Role.ADMIN})


def owner_of(resource: Resource) -> str:
    """Whose session it is; a nested one is its parent's owner's, whatever it says itself."""
    return (resource.parent_owner if resource.model == NESTED else "") or resource.owner


def owns(actor: Actor, resource: Resource) -> bool:
    """Whether a session is the actor's own."""
    return resource.session is not None and actor.name != "" and owner_of(resource) == actor.name


def lets_in(role: Role, actor: Actor, action: Action, resource: Resource) -> bool:
    """Whether a role that the actor holds counts for this action here.

    Sessions are listed by anyone whose role lists, and each row is then decided for itself. Creating one makes it the
    creator's own, so nobody creates one for somebody else.
    """
    if role in _EVERYWHERE:
        return True
    if action.thing is Thing.SESSION:
        if action.verb is Verb.CREATE:
            return owner_of(resource) in ("", actor.name)
        if action.verb is Verb.LIST and resource.session is None:
            return True
    if resource.session is None:
        return False
    owner = owner_of(resource)
    own = actor.name != "" and owner == actor.name
    if role is Role.OWNER:
        known = own
    elif role is Role.VIEWER:
        known = own or (actor.name in resource.users and resource.model in _KNOWN)
    else:
        known = own or (_employed(actor, owner, resource) and resource.model in _KNOWN)
    return known and _fits(role, actor, action.verb in WRITES, resource)


def _employed(actor: Actor, owner: str, resource: Resource) -> bool:
    """Whether an agent has business here: for the owner, by its name, or by a permission."""
    if owner and actor.acting_for == owner:
        return True
    return actor.name in resource.users or resource.agents.get(actor.agent or actor.name, NONE) != NONE


def _fits(role: Role, actor: Actor, writes: bool, resource: Resource) -> bool:
    """Whether the task and the permission are right. A person without a task is bound by neither."""
    is_agent = role is Role.AGENT or actor.kind == "agent" or actor.agent is not None
    if (
        resource.model in _BY_TASK
        and (is_agent or actor.task is not None)
        and (actor.task is None or actor.task != _scope(resource))
    ):
        return False
    if not is_agent:
        return True
    given = resource.agents.get(actor.agent or actor.name)
    if given is None:
        return resource.model != PER_AGENT
    return given == READ_WRITE or (given == READ and not writes)


def _scope(resource: Resource) -> str | None:
    """The task a session is for. A child that has only its parent's has none of its own."""
    shared = resource.model == NESTED and resource.task == resource.parent_task
    return None if shared else resource.task
