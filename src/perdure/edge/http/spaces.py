"""Which memory space a request means, and whether whoever asks may do this there.

A vault is its owner's, and of those who act for them. A clade is whose it was made, and of those whom it lets in. Lethe
is read by everybody in the tenant; only admins write there, beside what is promoted. What is foreign looks as what is
missing: one refusal, in the same words.
"""

from typing import Annotated, Final, Literal, Protocol, TypeAlias
from urllib.parse import unquote

import msgspec
from msgspec import Meta

from perdure.core.access.decide import decide
from perdure.core.access.roles import Action, Context, Decision, Reason, Resource, Role, Thing, Verb
from perdure.core.access.views import hides_memory
from perdure.core.errors import Denied, Invalid, NotFound
from perdure.core.memory.owning import APART, is_vault_of, vault_of
from perdure.core.memory.parts import LETHE, Namespace, Space
from perdure.core.session.ids import SessionId
from perdure.core.session.origin import Isolation
from perdure.core.session.state import State
from perdure.edge.http.asking import Ask, allowed
from perdure.edge.http.entrance import OVERRIDE
from perdure.edge.http.reaching import resource_of, state_of

Name = Annotated[str, Meta(min_length=1, max_length=128)]
Owner = Annotated[str, Meta(min_length=1, max_length=256)]
NOBODY: Final = ""
TAGS: Final = ("memory",)
READ: Final = Action(Verb.READ, Thing.MEMORY)
What: TypeAlias = Literal["memory", "run", "proposal", "clade", "space"]
_NAMED: Final[dict[str, What]] = {"memory_id": "memory", "run_id": "run", "proposal_id": "proposal"}
"""What the parts of a path lead to."""
_MISSING: Final[dict[What, str]] = {
    "memory": "there is no such memory, or space, here; GET /v1/memory lists what is in your vault",
    "run": "there is no such run, or space, here; GET /v1/memory/runs lists the consolidations of your vault",
    "proposal": "there is no such proposal, or space, here; GET /v1/memory/proposals lists what waits for a review",
    "clade": "there is no clade of that name, or none that lets you in; GET /v1/memory/clades lists those that do, and "
    "POST /v1/memory/clades begins one",
    "space": "there is no such memory, or space, here; GET /v1/memory/spaces lists those you may read",
}
_OPEN: Final = frozenset({Verb.READ, Verb.LIST, Verb.EXPORT})
"""What everybody may do to lethe, as far as their roles go."""
_TELLING: Final = frozenset({Verb.READ, Verb.WRITE, Verb.EXPORT})
"""What is answered with what others wrote."""


class Place(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Where: without a word, the vault of whoever asks, or of whom they act for. `agent` names another vault of the
    same owner, `clade` one that siblings share; `namespace` lethe is everybody's. `owner` is for admins, and for those
    who act for somebody.
    """

    namespace: Namespace | None = None
    agent: Name | None = None
    clade: Name | None = None
    owner: Owner | None = None


class SpaceQuery(Place, kw_only=True, forbid_unknown_fields=True):
    """Where."""


class Placed(Protocol):
    """Whatever says where as `Place` does."""

    namespace: Namespace | None
    agent: str | None
    clade: str | None
    owner: str | None


class Entered(msgspec.Struct, frozen=True, kw_only=True):
    """A space that a request was let into: itself, whose it is, and whose memories are kept there."""

    space: Space
    owner: str
    agent: str

    @property
    def told(self) -> str:
        """Its name."""
        return str(self.space)


def missing(what: What, reason: str | None = None) -> NotFound:
    """What is said of what is not there, or not for whoever asks."""
    error = NotFound(_MISSING[what])
    error.__cause__ = None if reason is None else Denied("concealed", reason=reason)
    return error


def sought(ask: Ask) -> What:
    """What a request about memory looks for in a space."""
    return next((what for name, what in _NAMED.items() if name in ask.params), "space")


async def entered(ask: Ask, place: Placed, action: Action | None = None) -> Entered:
    """The space that a request means, if whoever asks may do this there: what the endpoint asks for, unless another
    action is given.
    """
    wanted = ask.endpoint.action if action is None else action
    if wanted is None:
        raise TypeError("an endpoint about memory names its action")
    found = _meant(ask, place)
    await _let_in(ask, wanted, found.space, await _decided(ask, wanted, found))
    if found.space == LETHE and wanted.verb not in _OPEN and Role.ADMIN not in ask.actor.roles:
        raise Denied("lethe is everybody's: propose it (POST /v1/memory/promote), or ask an admin", reason="role")
    return found


async def may_enter(ask: Ask, place: Placed, action: Action) -> bool:
    """Whether whoever asks may do this, too, where they were let in."""
    try:
        await entered(ask, place, action)
    except (Denied, NotFound):
        return False
    return True


async def shown(ask: Ask, space: Space) -> bool:
    """Whether a space that is there is shown in a list: whether whoever asks may read it."""
    whose = ""
    if space.namespace == "vault":
        own = ask.actor.acting_for or ask.actor.name
        whose = own if is_vault_of(space, own) else unquote(space.name.partition(APART)[0])
    found = Entered(space=space, owner=whose, agent=whose)
    try:
        await _let_in(ask, READ, space, await _decided(ask, READ, found))
    except (Denied, NotFound):
        return False
    return True


async def made_clade(ask: Ask, name: str, isolation: Isolation) -> bool:
    """Begin a clade as one's own; False when that name is taken."""
    owner = ask.actor.acting_for or ask.actor.name
    return await ask.services.memories.shelves.begin(Space("clade", name), owner=owner, isolation=isolation)


def _meant(ask: Ask, place: Placed) -> Entered:
    space = place.namespace or ("vault" if place.clade is None else "clade")
    own = ask.actor.acting_for or ask.actor.name
    if space != "clade" and place.clade is not None:
        raise Invalid(f"a clade is asked for, and the namespace is {space}; leave one of them out")
    if space != "vault" and (place.agent is not None or place.owner is not None):
        raise Invalid(f"agent and owner go with the namespace vault, not {space}; leave them out")
    if space == "lethe":
        return Entered(space=LETHE, owner=NOBODY, agent=own)
    if space == "clade":
        if place.clade is None:
            raise Invalid("which clade? name it as `clade`")
        clade = Space("clade", place.clade)
        return Entered(space=clade, owner=NOBODY, agent=own)
    owner = place.owner or own
    agent = place.agent or owner
    return Entered(space=vault_of(owner, agent), owner=owner, agent=agent)


async def _decided(ask: Ask, action: Action, found: Entered) -> Decision:
    """What is decided on a space. Whether a vault was ever written to makes no difference, nor what is in its log."""
    tenant, log = ask.actor.tenant, ask.services.memories.shelves.session_of(found.space)
    if found.space.namespace != "clade":
        owner = ask.actor.name if found.space == LETHE else found.owner  # lethe is everybody's own
        return _judged(ask, action, Resource(tenant=tenant, session=log, owner=owner, tags=TAGS))
    return _judged(ask, action, _clade(tenant, log, await state_of(ask, log)))  # whom it lets in may have changed


def _clade(tenant: str, log: SessionId, state: State | None) -> Resource:
    return Resource(tenant=tenant, session=log, exists=False) if state is None else resource_of(state)


def _judged(ask: Ask, action: Action, resource: Resource) -> Decision:
    context = Context(
        at=ask.node.tenants.ambient.now(),
        address=ask.request.address,
        override=ask.request.headers.get(OVERRIDE) or None,
    )
    return decide(ask.actor, action, resource, context, ask.policy)


async def _let_in(ask: Ask, action: Action, space: Space, decision: Decision) -> None:
    """Go on, or say why not; an admin who breaks the glass here is written down before anything is shown."""
    if not decision.allowed and decision.concealed:
        raise missing("clade" if space.namespace == "clade" else sought(ask), str(decision.reason))
    allowed(decision, action, ask.actor)
    if action.verb in _TELLING and hides_memory(decision.hidden):
        raise Denied("what is remembered is hidden from you by a policy", reason="field")
    if decision.reason is Reason.OVERRIDE and ask.decision.reason is not Reason.OVERRIDE:
        await ask.node.entrance.noted(ask, reason=str(Reason.OVERRIDE))
