"""Spans around requests, for OpenTelemetry as the operator has set it up. No content, no names, no credentials."""

from collections.abc import Awaitable, Callable
from typing import Any

from perdure.edge.http.asgi import Answer, Request
from perdure.edge.http.routes import Endpoint

FAILED = 500
Answered = tuple[Endpoint | None, Answer]
Work = Callable[[Request], Awaitable[Answered]]


class Tracing:
    """Makes spans, if it is switched on."""

    def __init__(self, on: bool) -> None:
        self._tracer: Any = None
        if on:
            from opentelemetry import trace

            self._tracer = trace.get_tracer("perdure")

    async def request(self, request: Request, work: Work) -> Answered:
        """Have a request answered, in a span below the one that its `traceparent` names."""
        if self._tracer is None:
            return await work(request)
        from opentelemetry.propagate import extract
        from opentelemetry.trace import SpanKind

        attributes = {"http.request.method": request.method, "url.scheme": request.scope.get("scheme", "http")}
        context = extract(request.headers)
        with self._tracer.start_as_current_span(
            request.method, context, kind=SpanKind.SERVER, attributes=attributes, record_exception=False
        ) as span:
            endpoint, answer = await work(request)
            _end(span, endpoint, answer.status)
            return endpoint, answer


def _end(span: Any, endpoint: Endpoint | None, status: int) -> None:
    """Say which endpoint it was, and how it ended, in the words of the HTTP conventions."""
    if endpoint is not None:
        span.update_name(f"{endpoint.method} {endpoint.path}")
        span.set_attribute("http.route", endpoint.path)
        span.set_attribute("perdure.operation", endpoint.name)
    span.set_attribute("http.response.status_code", status)
    if status >= FAILED:
        span.set_attribute("error.type", str(status))
