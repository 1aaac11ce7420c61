"""Requests that HTTP can read and the server should not take: made from the server's own description of itself."""

import random
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from barrage import bodies, words

Document = dict[str, Any]
METHODS = (
    "GET",
    "HEAD",
    "POST",
    "PUT",
    "PATCH",
    "DELETE",
    "OPTIONS",
    "TRACE",
    "PROPFIND",
    "M-SEARCH",
    "QUERY",
    "A" * 40,
)
MEDIA = (
    "text/plain",
    "application/xml",
    "multipart/form-data; boundary=x",
    "application/x-www-form-urlencoded",
    "application/json; charset=utf-16",
    "application/json;" + "a=b;" * 500,
    "application/vnd.perdure+json",
    "application/merge-patch+json",
    "application/json-patch+json",
    "application/octet-stream",
    "application",
    "/",
    "",
    "*/*",
    "\u00e9",
)
HEADERS = (
    "If-Match",
    "If-None-Match",
    "Range",
    "Idempotency-Key",
    "Last-Event-ID",
    "perdure-override",
    "Accept",
    "Origin",
    "Cookie",
    "DPoP",
)


@dataclass
class Pool:
    """What exists on the server, to come close to."""

    key: str
    host: str
    sessions: list[str] = field(default_factory=list)
    checkpoints: list[str] = field(default_factory=list)
    blobs: list[str] = field(default_factory=list)
    cursors: list[str] = field(default_factory=list)


@dataclass
class Shot:
    """One request, ready to be sent, and what is wrong with it."""

    kind: str
    operation: str
    request: bytes
    bare: bool = False


@dataclass
class Parts:
    """A request before it is bytes."""

    method: str
    path: str
    query: str = ""
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes | None = None

    def bytes(self) -> bytes:
        """As HTTP writes it; a body that is None is not sent."""
        target = self.path + (f"?{self.query}" if self.query else "")
        lines = [f"{self.method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in self.headers.items())]
        if self.body is not None:
            lines.append(f"Content-Length: {len(self.body)}")
        return "\r\n".join(lines).encode("utf-8", "replace") + b"\r\n\r\n" + (self.body or b"")


class Operations:
    """Everything the description says there is, as things to ask wrongly for."""

    def __init__(self, document: Document, pool: Pool) -> None:
        self._schemas: Document = document["components"]["schemas"]
        self._pool = pool
        self._rows = [
            (path, method.upper(), found)
            for path, methods in document["paths"].items()
            for method, found in methods.items()
            if found["operationId"] not in UNTOUCHED
        ]
        self._bodied = [row for row in self._rows if "requestBody" in row[2]]
        self._pathed = [row for row in self._rows if "{" in row[0]]
        self._queried = [row for row in self._rows if any(one["in"] == "query" for one in row[2].get("parameters", ()))]
        self.paths = [self._filled(random.Random(0), row[0]) for row in self._rows]

    def shot(self, chance: random.Random) -> Shot:
        """One of them."""
        make = chance.choices(
            (
                self._field,
                self._json,
                self._place,
                self._query,
                self._credential,
                self._header,
                self._media,
                self._method,
            ),
            (30, 20, 12, 12, 10, 10, 3, 3),
        )[0]
        name, parts = make(chance)
        return Shot(make.__name__.strip("_"), name, parts.bytes(), parts.method == "HEAD")

    # ── what is right about them ──

    def _begun(self, chance: random.Random, row: tuple[str, str, Document]) -> Parts:
        """A request that would be taken, but for what is then done to it."""
        path, method, found = row
        headers = {"Host": self._pool.host, "Authorization": f"Bearer {self._pool.key}"}
        parts = Parts(method, self._filled(chance, path), headers=headers)
        if found["operationId"] == "erase_session":
            parts.headers["If-Match"] = NOT_YET  # else there were soon nothing left to shoot at
        if "requestBody" in found:
            media, content = next(iter(found["requestBody"]["content"].items()))
            parts.headers["Content-Type"] = media
            parts.body = bodies.encoded(self._example(content))
        return parts

    def _example(self, content: Document) -> Any:
        if "examples" in content:
            return content["examples"]["one"]["value"]
        return bodies.fitting(content["schema"], self._schemas)

    def _filled(self, chance: random.Random, path: str) -> str:
        pool = self._pool
        real = {
            "{session_id}": chance.choice(pool.sessions) if pool.sessions else "0",
            "{checkpoint_id}": chance.choice(pool.checkpoints) if pool.checkpoints else "0",
            "{sha256}": chance.choice(pool.blobs) if pool.blobs else "0" * 64,
        }
        return "/".join(real.get(piece, "nobody") if piece.startswith("{") else piece for piece in path.split("/"))

    # ── what is wrong about them ──

    def _field(self, chance: random.Random) -> tuple[str, Parts]:
        row = chance.choice(self._bodied)
        parts = self._begun(chance, row)
        media, content = chance.choice(list(row[2]["requestBody"]["content"].items()))
        parts.headers["Content-Type"] = media
        if media == "application/x-ndjson":
            parts.body = bodies.lines(chance)
        else:
            example = content["examples"]["one"]["value"] if "examples" in content else None
            parts.body = bodies.unfit(chance, example, content["schema"], self._schemas)
        return row[2]["operationId"], parts

    def _json(self, chance: random.Random) -> tuple[str, Parts]:
        row = chance.choice(self._bodied)
        parts = self._begun(chance, row)
        media, content = chance.choice(list(row[2]["requestBody"]["content"].items()))
        parts.headers["Content-Type"] = media
        parts.body = bodies.broken(chance, self._example(content))
        return row[2]["operationId"], parts

    def _place(self, chance: random.Random) -> tuple[str, Parts]:
        row = chance.choice(self._pathed)
        parts = self._begun(chance, row)
        pool = self._pool
        pieces = row[0].split("/")
        hit = chance.choice([at for at, piece in enumerate(pieces) if piece.startswith("{")])
        known = {"{checkpoint_id}": pool.checkpoints, "{sha256}": pool.blobs}.get(pieces[hit], pool.sessions)
        real = parts.path.split("/")
        word = words.spelled_id(chance, known)[:8000]
        # Quoted, so that HTTP can read it; sometimes what is quoted already is left as it is.
        real[hit] = word if word.isascii() and word.startswith("%") else quote(word.encode("utf-8", "replace"), safe="")
        parts.path = "/".join(real)
        return row[2]["operationId"], parts

    def _query(self, chance: random.Random) -> tuple[str, Parts]:
        row = chance.choice(self._queried if chance.random() < 0.9 else self._rows)
        parts = self._begun(chance, row)
        names = [one["name"] for one in row[2].get("parameters", ()) if one["in"] == "query"] or ["limit"]
        asked = []
        for _ in range(chance.choice((1, 1, 2, 5))):
            name = chance.choice(names) if chance.random() < 0.9 else words.text(chance)[:200]
            word = words.cursor(chance, self._pool.cursors) if name == "cursor" else words.text(chance)
            asked.append(f"{quote(name, safe='')}={quote(word[:3000].encode('utf-8', 'replace'), safe='')}")
        parts.query = "&".join(asked)
        return row[2]["operationId"], parts

    def _credential(self, chance: random.Random) -> tuple[str, Parts]:
        row = chance.choice(self._rows)
        parts = self._begun(chance, row)
        word = words.credential(chance, self._pool.key)
        del parts.headers["Authorization"]
        roll = chance.random()
        if roll < 0.6:
            scheme = chance.choice(("Bearer", "bearer", "DPoP", "Basic", "Digest", "", "Bearer Bearer"))
            parts.headers["Authorization"] = f"{scheme} {word}"
        elif roll < 0.8:
            parts.headers["X-API-Key"] = word
        elif roll < 0.95:
            parts.headers["Cookie"] = chance.choice((f"__Host-perdure={word}", f"perdure={word}", "; ; =;", word))
        return row[2]["operationId"], parts

    def _header(self, chance: random.Random) -> tuple[str, Parts]:
        row = chance.choice(self._rows)
        parts = self._begun(chance, row)
        for name in chance.sample(HEADERS, chance.choice((1, 1, 2, 4))):
            word = {"If-Match": words.version, "If-None-Match": words.version, "Range": words.span}.get(
                name, words.text
            )(chance)
            if name == "Accept":
                word = chance.choice(("application/vnd.perdure+json", "text/html", "*/*;q=2", "application/xml", word))
            clean = "".join(c for c in word[:4000] if c.isprintable())
            parts.headers[name] = clean
        return row[2]["operationId"], parts

    def _media(self, chance: random.Random) -> tuple[str, Parts]:
        row = chance.choice(self._bodied)
        parts = self._begun(chance, row)
        parts.headers["Content-Type"] = chance.choice(MEDIA)
        parts.headers["Content-Encoding"] = chance.choice(("gzip", "zstd", "identity", "br, gzip"))
        return row[2]["operationId"], parts

    def _method(self, chance: random.Random) -> tuple[str, Parts]:
        row = chance.choice(self._rows)
        parts = self._begun(chance, row)
        parts.method = chance.choice(METHODS)
        if parts.method in ("DELETE",) and row[1] != "DELETE":
            parts.headers["If-Match"] = NOT_YET
        return row[2]["operationId"], parts


NOT_YET = '"9999999"'
"""A version that no session here has."""
UNTOUCHED = frozenset({"erase_person", "revoke_key", "sign_out"})
"""Operations that, fitted by chance, would end the one who shoots: a person erased, a key taken back."""
