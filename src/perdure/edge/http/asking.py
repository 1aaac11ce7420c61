"""A request that was let in: who asks for what, and everything an endpoint needs to answer."""

from typing import TYPE_CHECKING, Any, Final

from perdure.core.access.roles import BREAKING, Action, Actor, Decision, Reason, Role, Thing, Verb, scoped
from perdure.core.access.rules import Policy
from perdure.core.errors import Denied, Invalid, NotFound
from perdure.core.session.ids import SessionId, session_id
from perdure.edge.http.asgi import Answer, Headers, Request
from perdure.edge.http.node import Node
from perdure.edge.http.routes import Endpoint
from perdure.edge.http.wire import Voice, fitted, loose, typed
from perdure.edge.library import AsyncPerdure
from perdure.edge.session import AsyncSession

if TYPE_CHECKING:
    from perdure.compose import Services


class Ask:
    """What an endpoint gets."""

    __slots__ = (
        "_id",
        "_services",
        "actor",
        "decision",
        "endpoint",
        "headers",
        "heard",
        "into",
        "node",
        "params",
        "policy",
        "request",
        "voice",
    )

    def __init__(
        self,
        node: Node,
        request: Request,
        endpoint: Endpoint,
        filled: list[str],
        heard: Voice,
        voice: Voice,
    ) -> None:
        self.node = node
        self.request = request
        self.endpoint = endpoint
        self.params = dict(zip(endpoint.parameters, filled, strict=True)) if filled else {}
        self.heard = heard
        self.voice = voice
        self.headers: Headers = []
        self.actor: Actor
        self.decision: Decision
        self.policy: Policy
        self.into: tuple[SessionId, int] | None = None
        self._services: Services | None = None
        self._id: SessionId | None = None

    @property
    def services(self) -> "Services":
        """The services over the sessions of the tenant who asks."""
        found = self._services
        if found is None:
            found = self._services = self.node.tenants.services(self.actor.tenant)
        return found

    @property
    def hidden(self) -> tuple[str, ...]:
        """The fields that whoever asks may not see."""
        return self.decision.hidden

    @property
    def db(self) -> AsyncPerdure:
        """The tenant's sessions, by the library's own names."""
        return AsyncPerdure(self.services)

    @property
    def id(self) -> SessionId:
        """The session the path names; what is no id leads to none."""
        found = self._id
        if found is None:
            found = self._id = path_id(self.params["session_id"])
        return found

    @property
    def session(self) -> AsyncSession:
        """The session the path names, by the library's own names."""
        return AsyncSession(self.services, self.id)

    @property
    def key(self) -> str | None:
        """The idempotency key, if there is one."""
        found = self.request.headers.get("idempotency-key")
        if found is None:
            return None
        # As RFC 8941 strings are quoted; most clients send the bare word.
        return found[1:-1] if len(found) > 1 and found[0] == found[-1] == '"' else found

    @property
    def seen(self) -> int | None:
        """The version the client saw, as If-Match has it; None when it does not matter."""
        told = self.request.headers.get("if-match")
        if told is None or told == "*":
            return None
        bare = told.removeprefix("W/").strip('"')
        if not (bare.isascii() and bare.isdigit() and len(bare) < 20):
            raise Invalid(
                'If-Match is a version in quotes, like "12", as the ETag of an answer has it', header=told[:80]
            )
        return int(bare)

    async def body(self) -> Any:
        """The body as the endpoint declares it; its blank when it may be left out and was."""
        endpoint = self.endpoint
        data = await self.request.body()
        if not data and endpoint.optional:
            return endpoint.body()
        return typed(data, endpoint.body, self.heard, endpoint.decoder)

    async def document(self) -> Any:
        """The body as any JSON document."""
        return loose(await self.request.body(), self.heard)

    def query(self) -> Any:
        """The query as the endpoint declares it; `Invalid` for a name it does not know."""
        kind = self.endpoint.query
        given: dict[str, Any] = {}
        for name, value in self.request.query():
            given.setdefault(name, []).append(value)
        if kind is None:
            if given:
                raise Invalid(f"this takes no query; leave {', '.join(sorted(given))[:80]} out")
            return None
        known = set(kind.__struct_encode_fields__)
        if unknown := sorted(set(given) - known):
            told = f"there is no {unknown[0][:80]!r} to ask for here; there are {', '.join(sorted(known))}"
            raise Invalid(told, unknown=[name[:80] for name in unknown[:20]])
        lists = kind.__struct_defaults__ and _lists(kind)
        flat: dict[str, Any] = {}
        for name, values in given.items():
            if lists and name in lists:
                flat[name] = values
            elif len(values) > 1:
                raise Invalid(f"{name} is given {len(values)} times; give it once", name=name)
            else:
                flat[name] = values[0]
        found = fitted(flat, kind, texts=True)
        for field, name in zip(kind.__struct_fields__, kind.__struct_encode_fields__, strict=True):
            if name in flat and getattr(found, field) is None:
                raise Invalid(f"a query has no null; leave {name} out", at=f"$.{name}")
        return found

    def answer(self, value: Any, status: int | None = None, version: int | None = None) -> Answer:
        """What the endpoint says, with the version as its ETag if it has one."""
        headers = self.headers
        if version is not None:
            headers.append((b"etag", b'"%d"' % version))
        return Answer(status or self.endpoint.status, self.voice.encode(value), self.voice.media, headers)

    def unchanged(self, version: int) -> Answer | None:
        """304 when the client has this version already."""
        told = self.request.headers.get("if-none-match")
        if told is None or f'"{version}"' not in told:
            return None
        return Answer(304, b"", b"", [*self.headers, (b"etag", b'"%d"' % version)])


def path_id(text: str) -> SessionId:
    """A session's id from a path; what is none is not found, as any id that leads nowhere."""
    try:
        return session_id(text)
    except Invalid:
        raise missing() from None


def allowed(decision: Decision, action: Action, actor: Actor | None = None) -> Decision:
    """The decision, if it says yes; else `Denied`, or `NotFound` as for what is not there. An actor who could break the
    glass is told how.
    """
    if decision.allowed:
        return decision
    if decision.concealed:
        raise missing(str(decision.reason))
    about = action.thing is Thing.MEMORY
    why = (_OF_MEMORY if about else _WHY).get(decision.reason) or _WHY.get(decision.reason, _ASK)
    if actor is not None and decision.reason in _BEHIND_GLASS and _could_break(actor, action):
        why = f"{why}. {_GLASS}"
    what = _DONE[action.verb] if about else f"{action.verb.value} {action.thing.value}"
    told = f"you may not {what} here: {why}"
    raise Denied(told, reason=str(decision.reason), action=str(action))


_ASK: Final = "ask an admin of your tenant"
_WHY: Final = {
    Reason.ROLE: "none of your roles allows it; ask an admin of your tenant for one that does",
    Reason.SCOPE: "your key or token was not given for it; use one with that scope",
    Reason.ISOLATION: "you may see this session, but it does not let you do that; its owner may",
    Reason.RULE: "a rule of your tenant forbids it",
    Reason.FIELD: "a field of it is closed to you by a policy",
}


_OF_MEMORY: Final = {
    Reason.ISOLATION: "you know of this space, but it does not let you do that; whose it is may",
    Reason.FIELD: "what is remembered is closed to you by a policy",
}
"""The same of memory, which is kept in no session."""
_DONE: Final = {
    Verb.LIST: "see what spaces of memories hold",
    Verb.CREATE: "keep memories",
    Verb.READ: "read memories",
    Verb.WRITE: "change memories",
    Verb.DELETE: "forget memories",
    Verb.MOVE: "archive, quarantine or restore memories",
    Verb.BRANCH: "branch memories",
    Verb.SHARE: "share memories",
    Verb.EXPORT: "export memories",
    Verb.ISSUE: "set plans of memories, or rule over their sources,",
    Verb.OVERRIDE: "break the glass to memories",
}
"""What one does to memory, by the verbs of access."""


_BEHIND_GLASS: Final = frozenset({Reason.ROLE, Reason.ISOLATION, Reason.FIELD})
_GLASS: Final = (
    "As an admin you may break the glass: send the header perdure-override with your reason, which the audit log keeps"
)


def _could_break(actor: Actor, action: Action) -> bool:
    """Whether this would be open to the actor if they gave a reason."""
    needed = BREAKING.get(action)
    return needed is not None and Role.ADMIN in actor.roles and needed in scoped(actor.scopes)


def missing(reason: str | None = None) -> NotFound:
    """What is said of a session that is not there, or not for whoever asks; why, only the audit log hears."""
    error = NotFound("no such session here; GET /v1/sessions lists those there are")
    error.__cause__ = None if reason is None else Denied("concealed", reason=reason)
    return error


_LISTS: dict[type, frozenset[str]] = {}


def _lists(kind: Any) -> frozenset[str]:
    """The fields of a query that may be given more than once."""
    found = _LISTS.get(kind)
    if found is None:
        hints = {name: str(hint) for name, hint in kind.__annotations__.items()}
        found = _LISTS[kind] = frozenset(name for name, hint in hints.items() if "tuple" in hint)
    return found
