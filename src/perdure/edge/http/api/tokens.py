"""Session tokens: what opens one session for a few minutes, had again by refreshing, taken back at once."""

from http import HTTPStatus
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from perdure.core import errors
from perdure.core.access.entries import AuditEntry
from perdure.core.access.roles import Thing, Verb
from perdure.core.errors import Denied, Invalid, Unauthenticated
from perdure.edge.http.asgi import Answer
from perdure.edge.http.asking import Ask
from perdure.edge.http.entrance import seen_by, url_of
from perdure.edge.http.routes import Table
from perdure.services.outside import CREDENTIAL

table = Table()
Text = Annotated[str, Meta(max_length=256)]


class TokenBody(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """How long the token counts, in seconds; whether for the asker's address alone; for which client key alone."""

    ttl: Annotated[int, Meta(ge=1, le=900)] | None = None
    bind_address: bool = False
    cnf: Annotated[str, Meta(max_length=64)] | None = None


class RefreshBody(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The refresh token, good once."""

    refresh_token: Annotated[str, Meta(max_length=8192)]


class TokenView(msgspec.Struct, kw_only=True):
    """A token for one session, and what the next one is had with."""

    session_id: str
    access_token: str
    refresh_token: str
    token_type: str
    expires_at: int
    family: str


class RevokeQuery(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Which: one token, one family, or all of the session when neither is given."""

    token: Text | None = None
    family: Text | None = None


@table.add(
    "POST",
    "/v1/sessions/{session_id}/tokens",
    (Verb.ISSUE, Thing.TOKENS),
    body=TokenBody,
    answer=TokenView,
    status=HTTPStatus.CREATED,
    optional=True,
    sensitive=True,
    errors=(errors.Terminal,),
    example={"ttl": 300, "bind_address": True},
)
async def issue_token(ask: Ask) -> Answer:
    """A token that opens this session and nothing else, for a few minutes."""
    body: TokenBody = await ask.body()
    if body.bind_address and ask.request.address is None:
        raise Invalid("the asker has no address to bind the token to; leave bind_address out")
    if ask.actor.credential.startswith(CREDENTIAL):
        raise Denied("session tokens are for those in the directory; come with the issuer's token", reason="credential")
    if body.cnf is not None:
        _must_hold(ask, body.cnf)
    pair = await ask.node.entry.tokens.issue(
        ask.actor,
        ask.id,
        ttl=body.ttl,
        address=ask.request.address if body.bind_address else None,
        cnf=body.cnf,
        request=seen_by(ask.request, ask.endpoint, ask.id),
    )
    return ask.answer(_token(pair))


@table.add(
    "POST",
    "/v1/tokens/refresh",
    None,
    body=RefreshBody,
    answer=TokenView,
    errors=(errors.TokenRevoked,),
    example={"refresh_token": "eyJhbGciOiJIUzI1NiJ9.e30.c2lnbmF0dXJl"},
)
async def refresh_token(ask: Ask) -> Answer:
    """The next tokens of a family. A refresh token that is used twice ends its family."""
    body: RefreshBody = await ask.body()
    pair = await ask.node.entry.tokens.refresh(body.refresh_token, seen_by(ask.request, ask.endpoint, None))
    tenants, claims = ask.node.tenants, pair.claims
    entry = AuditEntry(
        what=ask.endpoint.name,
        at=tenants.ambient.now(),
        tenant=claims.tenant,
        actor=claims.principal,
        credential=claims.family,
        session=claims.session,
        address=ask.request.address,
    )
    tenants.auditing.later(claims.tenant, entry)
    return ask.answer(_token(pair))


def _must_hold(ask: Ask, thumbprint: str) -> None:
    """`Unauthenticated` unless whoever asks proves to hold the client key that the token is to be bound to."""
    proofs, request = ask.node.entry.proofs, ask.request
    found = proofs.verify(request.headers.get("dpop", ""), method=request.method, url=url_of(request))
    if found != thumbprint:
        raise Unauthenticated("the DPoP proof was made with another key than cnf names; prove with that one")
    ask.headers.append((b"dpop-nonce", proofs.nonce().encode()))


def _token(pair: Any) -> TokenView:
    return TokenView(
        session_id=pair.claims.session,
        access_token=pair.access,
        refresh_token=pair.refresh,
        token_type="Bearer" if pair.claims.cnf is None else "DPoP",
        expires_at=pair.claims.exp * 1_000_000,
        family=pair.claims.family,
    )


@table.add(
    "DELETE",
    "/v1/sessions/{session_id}/tokens",
    (Verb.DELETE, Thing.TOKENS),
    query=RevokeQuery,
    status=HTTPStatus.NO_CONTENT,
    sensitive=True,
)
async def revoke_tokens(ask: Ask) -> Answer:
    """Take back one token, one family, or every token of a session, on every node at the next request."""
    query: RevokeQuery = ask.query()
    await ask.node.entry.tokens.revoke(ask.id, jti=query.token, family=query.family, reason="asked for")
    return Answer(HTTPStatus.NO_CONTENT, b"", b"", ask.headers)
