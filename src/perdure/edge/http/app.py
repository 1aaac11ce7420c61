"""The application: what ASGI calls. A request goes host → table → limits → who → whether → endpoint → answer."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Final

from perdure.core.access.roles import Reason
from perdure.core.errors import (
    Denied,
    PerdureError,
    ProviderFailed,
    ProviderRefused,
    RateLimited,
    Unauthenticated,
    WorldError,
)
from perdure.edge.http import problems, shaping
from perdure.edge.http.asgi import Answer, App, Gone, Hands, Receive, Request, Scope, Send
from perdure.edge.http.asking import Ask
from perdure.edge.http.entrance import LET_IN, REFUSALS
from perdure.edge.http.logs import facts
from perdure.edge.http.node import Node
from perdure.edge.http.origins import preflight, readable
from perdure.edge.http.routes import MUTATING, Endpoint, Router
from perdure.edge.http.tracing import Tracing
from perdure.edge.http.wire import PLAINLY, voice_of
from perdure.services.acting import acting

log: Final = logging.getLogger("perdure.http")
ALWAYS: Final = frozenset({"/healthz", "/readyz", "/metrics"})
"""What is answered also when all hands are busy."""
STRANGER_BODY: Final = 64 * 1024
"""Bytes of a body that somebody nobody knows may send."""
SAFE: Final = [
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
]
Socket = Callable[[Scope, Receive, Send], Awaitable[None]]


class Application:
    """perdure as an ASGI application."""

    def __init__(self, node: Node, router: Router, socket: Socket, lifespan: App) -> None:
        self.node = node
        self.router = router
        self.measures = node.measures
        self._socket = socket
        self._lifespan = lifespan
        self._settings = node.settings
        self._tracing = Tracing(node.settings.otel)
        self._hands = Hands()
        self._streams = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request, a surface, or the server's own life."""
        if scope["type"] == "http":
            await self._http(Request(scope, receive, self._settings.max_body, self._hands), send)
        elif scope["type"] == "websocket":
            await self._socket(scope, receive, send)
        else:
            await self._lifespan(scope, receive, send)

    async def _http(self, request: Request, send: Send) -> None:
        began = self.measures.now()
        endpoint: Endpoint | None = None
        self._hands.busy += 1
        try:
            endpoint, answer = await self._tracing.request(request, self._answered)
        except (Gone, asyncio.CancelledError):
            self._streams -= request.streams
            return
        finally:
            self._hands.busy -= 1
        answer.headers += SAFE
        answer.headers.append((b"content-security-policy", answer.policy))
        if self._settings.origins:
            answer.headers += readable(request, self._settings)
        self.measures.count(endpoint, answer.status, began)
        try:
            await answer.send(send, bare=request.method == "HEAD")
        except TimeoutError:
            log.info("an answer was not taken", extra={"endpoint": endpoint.name if endpoint else None})
        except PerdureError:
            log.exception("an answer broke off", extra={"endpoint": endpoint.name if endpoint else None})
            raise
        finally:
            self._streams -= request.streams

    async def _answered(self, request: Request) -> tuple[Endpoint | None, Answer]:
        """The answer to a request, whatever it is."""
        endpoint: Endpoint | None = None
        voice = PLAINLY
        try:
            voice = voice_of(request.headers.get("accept"))
            endpoint, filled = self._found(request)
            self._admitted(request, endpoint)
            heard = voice_of(request.headers.get("content-type"))
            ask = Ask(self.node, request, endpoint, filled, heard, voice)
            return endpoint, await self._served(ask)
        except PerdureError as error:
            if isinstance(error, REFUSALS):
                log.info("refused", extra={"endpoint": endpoint.name if endpoint else None, "code": error.code})
            if isinstance(error, ProviderFailed | ProviderRefused):
                log.warning("a provider gave no answer", extra={"endpoint": endpoint and endpoint.name, **facts(error)})
            elif isinstance(error, WorldError):
                log.error("%s", error.code, extra={"endpoint": endpoint.name if endpoint else None}, exc_info=error)
            if endpoint is not None and endpoint.form:
                return endpoint, shaping.told(shaping.spoken(endpoint, request.headers), error)
            return endpoint, problems.told(error, voice)
        except _Unknown as unknown:
            return None, unknown.answer
        except (Gone, asyncio.CancelledError):
            raise
        except Exception as error:  # the last door: whatever it was, nothing of it goes out
            log.exception("unexpected", extra={"endpoint": endpoint.name if endpoint else None}, exc_info=error)
            detail = "something went wrong here; the server's log says what"
            if endpoint is not None and endpoint.form:
                return endpoint, shaping.unexpected(shaping.spoken(endpoint, request.headers), detail)
            return endpoint, problems.answer(HTTPStatus.INTERNAL_SERVER_ERROR, "unexpected", detail, voice)

    def _found(self, request: Request) -> tuple[Endpoint, list[str]]:
        endpoint, filled, methods = self.router.find(request.method, request.segments())
        if endpoint is not None:
            return endpoint, filled
        allowed = preflight(request, methods, self._settings)
        if allowed is not None:
            raise _Unknown(allowed)
        form = shaping.visitor(request.headers)
        if form:
            raise _Unknown(shaping.nowhere(form, request.method, request.path, methods))
        if not methods:
            detail = "there is nothing at this path; /openapi.json lists what there is"
            raise _Unknown(problems.answer(HTTPStatus.NOT_FOUND, "no_such_path", detail, PLAINLY))
        allow = (b"allow", ", ".join(methods).encode())
        detail = f"this path takes {', '.join(methods)}"
        raise _Unknown(
            problems.answer(HTTPStatus.METHOD_NOT_ALLOWED, "method_not_allowed", detail, PLAINLY, headers=[allow])
        )

    def _admitted(self, request: Request, endpoint: Endpoint) -> None:
        """Refuse what comes by a wrong name, from a foreign page, in a form not taken, or while all hands are busy."""
        headers = request.headers
        if not self._settings.takes_host(headers.get("host", "")):
            raise _Unknown(
                problems.answer(
                    HTTPStatus.MISDIRECTED_REQUEST, "wrong_host", "this server does not go by that name", PLAINLY
                )
            )
        origin = headers.get("origin")
        if (
            origin is not None
            and request.method in MUTATING
            and not self._settings.takes_origin(origin, headers["host"])
        ):
            raise Denied("this server takes no writes from pages of that origin", reason="origin")
        if endpoint.body is not None and (media := headers.get("content-type")) is not None:
            _must_take(endpoint, media)
        live = endpoint.live and "text/event-stream" in headers.get("accept", "")
        if self._hands.busy > self._settings.max_concurrent and endpoint.path not in ALWAYS and not live:
            raise RateLimited("the server is busy; try again in a second", retry_after=1)
        if endpoint.pieces:  # counted at once: many may come together
            if self._streams >= self._settings.max_streams:
                raise RateLimited("too many exports and blobs are on their way; try again in a second", retry_after=1)
            self._streams += 1
            request.streams = True

    async def _served(self, ask: Ask) -> Answer:
        endpoint = ask.endpoint
        entrance = self.node.entrance
        if endpoint.action is None and not endpoint.known:
            ask.decision = LET_IN
            ask.request.limit = min(ask.request.limit, STRANGER_BODY)
            try:
                return await self._called(ask)
            except Unauthenticated as stranger:
                entrance.strange(ask, stranger)
                raise
        token = await entrance.admitted(ask, ask.params.get("session_id"))
        if endpoint.sensitive or ask.decision.reason is Reason.OVERRIDE:  # first, so that nothing happens unseen
            await entrance.noted(ask, reason=str(ask.decision.reason))
        try:
            with acting(ask.actor.name, ask.into):
                answer = await self._called(ask)
        except PerdureError as error:
            entrance.turned_away(ask, error)
            raise
        if token is not None and token.verdict.rotate:
            successor = await self.node.entry.tokens.rotate(token)
            if successor is not None:
                answer.headers.append((b"x-new-session-token", successor.encode()))
        return answer

    async def _called(self, ask: Ask) -> Answer:
        if ask.endpoint.query is None and ask.request.scope["query_string"] and not ask.endpoint.form:
            ask.query()  # says that there is nothing to ask for
        found = await ask.endpoint.call(ask)
        return found if isinstance(found, Answer) else ask.answer(found)


class _Unknown(Exception):
    """A request that no endpoint has to do with."""

    def __init__(self, answer: Answer) -> None:
        super().__init__("unknown")
        self.answer = answer


def _must_take(endpoint: Endpoint, media: str) -> None:
    bare = media.split(";", maxsplit=1)[0].strip().lower()
    if (
        endpoint.body is bytes
        or bare in endpoint.takes
        or (bare.endswith("+json") and "application/json" in endpoint.takes)
    ):
        return
    detail = f"this takes {', '.join(endpoint.takes)}; say so in the header Content-Type"
    raise _Unknown(problems.answer(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type", detail, PLAINLY))
