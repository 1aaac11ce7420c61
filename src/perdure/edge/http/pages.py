"""The few pages the server has for people in a browser: text and links, no scripts, nothing from elsewhere."""

from html import escape
from typing import Final

from perdure.edge.http.asgi import Answer, Headers, Request

HTML: Final = b"text/html; charset=utf-8"
POLICY: Final = b"default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; form-action 'self'"
_STYLE: Final = "body{font:16px/1.5 system-ui;margin:15vh auto;max-width:36em;padding:0 1em}"
Link = tuple[str, str]
"""A path of this server, and what is there."""


def in_browser(request: Request) -> bool:
    """Whether who asks would rather read a page."""
    return "text/html" in request.headers.get("accept", "")


def page(status: int, title: str, text: str, links: tuple[Link, ...] = (), headers: Headers | None = None) -> Answer:
    """A page with a title, a paragraph and links; whatever stands in the text is shown, and does nothing."""
    items = "".join(f'<li><a href="{escape(path)}">{escape(path)}</a>: {escape(what)}</li>' for path, what in links)
    listed = f"<ul>{items}</ul>" if items else ""
    body = (
        f"<!doctype html><html lang=en><meta charset=utf-8><title>{escape(title)}</title>"
        f"<style>{_STYLE}</style><h1>{escape(title)}</h1><p>{escape(text)}</p>{listed}</html>"
    )
    found = [*(headers or ()), (b"cache-control", b"no-store"), (b"vary", b"accept")]
    return Answer(status, body.encode(), HTML, found, policy=POLICY)
