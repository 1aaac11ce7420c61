"""Surfaces by WebSocket: the door. It is the one for requests, and looks at Host and Origin whatever is shown."""

import logging
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from perdure.core.access.roles import Reason
from perdure.core.errors import Denied, PerdureError
from perdure.edge.http import problems
from perdure.edge.http.api.live import ATTACH, AttachQuery
from perdure.edge.http.asgi import Answer, Receive, Request, Scope, Send
from perdure.edge.http.asking import Ask
from perdure.edge.http.entrance import COOKIE, credential_of
from perdure.edge.http.live.hub import Hub, started
from perdure.edge.http.live.socket import Socket
from perdure.edge.http.wire import EXACTLY, PLAINLY, voice_of

if TYPE_CHECKING:
    from perdure.edge.http.node import Node

log: Final = logging.getLogger("perdure.live")
PROTOCOL: Final = "perdure"
BEARER: Final = "perdure.bearer."
"""A browser cannot send headers with a socket: it offers the protocol `perdure`, and this with its token."""


class Surfaces:
    """The ASGI application for sockets."""

    def __init__(self, node: "Node") -> None:
        if not isinstance(node.hub, Hub):
            raise TypeError("surfaces are attached to a hub; give the node one")
        self._node = node
        self._hub = node.hub

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a surface in and serve it until it leaves, or say why not."""
        await receive()  # websocket.connect
        try:
            let_in = await self._let_in(scope, receive)
        except PerdureError as error:
            await _refuse(scope, send, problems.told(error, PLAINLY))
            return
        except Exception:  # the last door: whatever it was, nothing of it goes out
            log.exception("unexpected")
            detail = "something went wrong here; the server's log says what"
            status = HTTPStatus.INTERNAL_SERVER_ERROR
            await _refuse(scope, send, problems.answer(status, "unexpected", detail, PLAINLY))
            return
        if let_in is None:
            detail = "no socket is served at this path; /v1/sessions/{session_id}/attach is"
            await _refuse(scope, send, problems.answer(HTTPStatus.NOT_FOUND, "no_such_path", detail, PLAINLY))
            return
        offered = PROTOCOL if PROTOCOL in scope.get("subprotocols", ()) else None
        await send({"type": "websocket.accept", "subprotocol": offered})
        await Socket(self._hub, *let_in, receive, send).served()

    async def _let_in(self, scope: Scope, receive: Receive) -> tuple[Ask, int] | None:
        """The request of a surface that may attach, and after which version; None when it is for another path."""
        request = _request(scope, receive, self._node.settings.max_body)
        pieces = request.segments()
        if len(pieces) != 4 or [*pieces[:2], pieces[3]] != ["v1", "sessions", "attach"]:
            return None
        self._must_come_from_here(request)
        node = self._node
        voice = voice_of(request.headers.get("accept"))
        ask = Ask(node, request, ATTACH, [pieces[2]], voice, voice)
        await node.entrance.admitted(ask, pieces[2])
        query: AttachQuery = ask.query()
        if query.exact:
            ask.voice = ask.heard = EXACTLY
        self._hub.must_have_room(ask.id)
        if ask.decision.reason is Reason.OVERRIDE:
            await node.entrance.noted(ask, reason=str(ask.decision.reason))
        head = (await ask.services.sessions.log.head(ask.id)).row.version
        return ask, started(ask, head)

    def _must_come_from_here(self, request: Request) -> None:
        """Refuse what comes by a wrong name or from a foreign page, whatever it shows."""
        settings, headers = self._node.settings, request.headers
        host, origin = headers.get("host", ""), headers.get("origin")
        if not settings.takes_host(host):
            raise Denied("this server does not go by that name", reason="host")
        if origin is not None and not settings.takes_origin(origin, host):
            raise Denied("this server takes no surfaces from pages of that origin", reason="origin")
        if origin is None and (credential_of(request) or "").startswith(COOKIE):
            raise Denied("a sign-in counts only from a page of this server; send a key instead", reason="origin")


def _request(scope: Scope, receive: Receive, limit: int) -> Request:
    """The handshake as a request; a token among the offered protocols is taken for what a header would say."""
    headers = list(scope["headers"])
    names = {name for name, _ in headers}
    token = next((name[len(BEARER) :] for name in scope.get("subprotocols", ()) if name.startswith(BEARER)), None)
    if token and b"authorization" not in names:
        headers.append((b"authorization", b"Bearer " + token.encode("latin-1", "replace")))
    shown = [(name, value) for name, value in headers if name != b"sec-websocket-protocol"]
    scheme = {"ws": "http", "wss": "https"}.get(scope.get("scheme", "ws"), "http")
    return Request({**scope, "method": "GET", "scheme": scheme, "headers": shown}, receive, limit)


async def _refuse(scope: Scope, send: Send, answer: Answer) -> None:
    """Refuse the handshake: as a problem where the server can say it, else by a plain 403."""
    if "websocket.http.response" not in (scope.get("extensions") or {}):
        await send({"type": "websocket.close", "code": 1008, "reason": ""})
        return
    headers = [*answer.headers, (b"content-length", str(len(answer.body)).encode())]
    await send({"type": "websocket.http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "websocket.http.response.body", "body": answer.body})
