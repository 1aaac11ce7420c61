"""Spans around requests, for OpenTelemetry as the operator has set it up. No content, no names, no credentials."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from perdure.edge.http.asgi import Request
from perdure.edge.http.routes import Endpoint

FAILED = 500


class Traced(Protocol):
    """What is told how a request ended."""

    def ended(self, endpoint: Endpoint | None, status: int) -> None:
        """The request was answered."""
        ...


class _Nothing:
    def ended(self, endpoint: Endpoint | None, status: int) -> None:
        """Nobody asked."""


_NOTHING = _Nothing()


class _Span:
    def __init__(self, span: Any) -> None:
        self._span = span

    def ended(self, endpoint: Endpoint | None, status: int) -> None:
        """Say which endpoint it was, and how it ended, in the words of the HTTP conventions."""
        if endpoint is not None:
            self._span.update_name(f"{endpoint.method} {endpoint.path}")
            self._span.set_attribute("http.route", endpoint.path)
            self._span.set_attribute("perdure.operation", endpoint.name)
        self._span.set_attribute("http.response.status_code", status)
        if status >= FAILED:
            self._span.set_attribute("error.type", str(status))


class Tracing:
    """Makes spans, if it is switched on."""

    def __init__(self, on: bool) -> None:
        self._tracer: Any = None
        if on:
            from opentelemetry import trace

            self._tracer = trace.get_tracer("perdure")

    @contextmanager
    def request(self, request: Request) -> Iterator[Traced]:
        """A span for as long as a request is served, below the one that its `traceparent` names."""
        if self._tracer is None:
            yield _NOTHING
            return
        from opentelemetry.propagate import extract
        from opentelemetry.trace import SpanKind

        attributes = {"http.request.method": request.method, "url.scheme": request.scope.get("scheme", "http")}
        context = extract(request.headers)
        with self._tracer.start_as_current_span(
            request.method, context, kind=SpanKind.SERVER, attributes=attributes, record_exception=False
        ) as span:
            yield _Span(span)
