"""Clients of a server that dies under them: each remembers what was acknowledged, and sends again what was not.

Invariant: what stands in a `Kept` was acknowledged. A request without an answer is sent again, under the same key,
until there is one; so in the end everything that was ever sent must be there exactly once.
"""

import hashlib
import random
import string
import threading
import time
from collections import Counter
from typing import Any

from torture.serving import Asked, Line, Server, Stopping, Stuck

RETRY_WINDOW = 10.0
"""Seconds in which a refresh whose answer was lost may be sent again."""
FULL = 120
"""After so many appends a session is left alone, and another one begun."""


class Kept:
    """What was acknowledged of one session."""

    def __init__(self, id: str, version: int, key: str, shared: bool = False) -> None:
        self.id = id
        self.key = key
        """What its owner comes in with."""
        self.shared = shared
        self.lock = threading.Lock()
        self.said: list[tuple[int, str]] = []
        """The version and text of each message."""
        self.version = version
        self.number = 0
        """What vars say."""
        self.points: list[str] = []
        self.branches: list[str] = []
        self.dirty = True


class Ledger:
    """Everything that was acknowledged, by all callers together."""

    def __init__(self) -> None:
        self.sessions: list[Kept] = []
        self.blobs: list[tuple[str, bytes]] = []
        self.problems: list[str] = []
        self.done: Counter[str] = Counter()
        self.lost = 0
        """Answers that never came, so that the request was sent again."""
        self.acked = 0

    def wrong(self, what: str) -> None:
        """Something that must not be."""
        self.problems.append(what)


class Caller(threading.Thread):
    """One client with a principal of its own."""

    def __init__(self, number: int, seed: str, line: Line, ledger: Ledger, shared: list[Kept], stop: Stopping) -> None:
        super().__init__(name=f"caller-{number}", daemon=True)
        self._rng = random.Random(seed)
        self._line = line
        self._ledger = ledger
        self._shared = shared
        self._stop_asked = stop
        self._count = 0
        self._own: Kept | None = None
        self.wide = 0
        """How many characters a message has besides its name, for those who fill disks."""

    def run(self) -> None:
        """Work until told to stop; what is under way is finished."""
        try:
            while not self._stop_asked.is_set() and not self._ledger.problems:
                self._step()
        except Stuck as stuck:
            self._ledger.wrong(f"{self.name}: {stuck}")
        except Exception as error:  # a client that breaks is a finding, too
            self._ledger.wrong(f"{self.name} broke: {error!r}")

    def _step(self) -> None:
        own = self._own
        if own is None or len(own.said) >= FULL:
            own = self._own = self._begin()
        acts = (
            (self._say, 40),
            (self._say_seen, 20),
            (self._say_unseen, 4),
            (self._say_together, 14),
            (self._patch, 10),
            (self._point, 4),
            (self._branch, 2),
            (self._blob, 3),
            (self._token, 3),
        )
        act = self._rng.choices([act for act, _ in acts], [weight for _, weight in acts])[0]
        act(own)
        own.dirty = True
        self._ledger.done[act.__name__.strip("_")] += 1

    def _next(self) -> str:
        self._count += 1
        return f"{self.name}-{self._count}"

    def _answered(self, found: Asked, *expected: int) -> Any:
        """What an answer says, which must be one of these."""
        self._ledger.lost += found.sent - 1
        if found.status not in (expected or (200, 201)):
            raise AssertionError(f"answered {found.status} {found.body!r:.400} at attempt {found.sent}")
        self._ledger.acked += 1
        return found.body

    def _again(self, first: Any, method: str, path: str, body: Any, **headers: str) -> None:
        """Now and then, send what was acknowledged once more: it is answered as it was."""
        if self._rng.random() < 0.2:
            found = self._answered(self._line.ask(method, path, body, **headers))
            if found != first:
                self._ledger.wrong(f"{method} {path} under {headers} said {first!r:.300}, then {found!r:.300}")

    # ── what callers do ──

    def _begin(self) -> Kept:
        name = self._next()
        body = {"title": name, "tags": ["tortured"], "vars": {"number": 0}}
        found = self._answered(self._line.ask("POST", "/v1/sessions", body, idempotency_key=name))
        again = self._answered(self._line.ask("POST", "/v1/sessions", body, idempotency_key=name))
        if again["session_id"] != found["session_id"]:
            self._ledger.wrong(f"one key made two sessions: {found['session_id']} and {again['session_id']}")
        kept = Kept(found["session_id"], found["version"], self._line.key)
        self._ledger.sessions.append(kept)
        return kept

    def _body(self, text: str) -> dict[str, Any]:
        more = "".join(self._rng.choices(string.ascii_letters, k=self.wide)) if self.wide else ""
        said = [{"kind": "message", "data": {"role": "user", "content": f"{text} {more}"}}]
        return {"events": said, "arrange": True, "echo": True}

    def _said(self, kept: Kept, **headers: str) -> None:
        text = self._next()
        path, body = f"/v1/sessions/{kept.id}/events", self._body(text)
        found = self._answered(self._line.ask("POST", path, body, idempotency_key=text, **headers))
        versions = [event["version"] for event in found["events"] if event["kind"] == "message"]
        if len(versions) != 1:
            raise AssertionError(f"one message was sent, and this is told: {found!r:.400}")
        with kept.lock:
            kept.said.append((versions[0], text))
            kept.version = found["version"]
        self._again(found, "POST", path, body, idempotency_key=text, **headers)

    def _say(self, own: Kept) -> None:
        self._said(own)

    def _say_seen(self, own: Kept) -> None:
        self._said(own, if_match=f'"{own.version}"')

    def _say_unseen(self, own: Kept) -> None:
        """An append that saw an older version is refused, and leaves nothing."""
        text = self._next()
        headers = {"idempotency_key": text, "if_match": f'"{own.version - 1}"'}
        found = self._line.ask("POST", f"/v1/sessions/{own.id}/events", self._body(text), **headers)
        self._answered(found, 409)

    def _say_together(self, _: Kept) -> None:
        self._said(self._rng.choice(self._shared))

    def _patch(self, own: Kept) -> None:
        name, number = self._next(), own.number + 1
        path, body = f"/v1/sessions/{own.id}/state", {"number": number}
        found = self._answered(self._line.ask("PATCH", path, body, idempotency_key=name))
        own.number, own.version = number, found["version"]
        self._again(found, "PATCH", path, body, idempotency_key=name)

    def _point(self, own: Kept) -> None:
        name = self._next()
        path, body = f"/v1/sessions/{own.id}/checkpoint", {"label": name}
        found = self._answered(self._line.ask("POST", path, body, idempotency_key=name))
        own.points.append(found["checkpoint_id"])
        own.version = self._answered(self._line.ask("GET", f"/v1/sessions/{own.id}"))["version"]
        self._again(found, "POST", path, body, idempotency_key=name)

    def _branch(self, own: Kept) -> None:
        name = self._next()
        path, body = f"/v1/sessions/{own.id}/branch", {"title": name}
        found = self._answered(self._line.ask("POST", path, body, idempotency_key=name))
        own.branches.append(found["session_id"])
        self._again(found, "POST", path, body, idempotency_key=name)

    def _blob(self, _: Kept) -> None:
        content = f"{self._next()} ".encode() * self._rng.randint(1, 4000)
        octets = {"content_type": "application/octet-stream"}
        found = self._answered(self._line.ask("POST", "/v1/blobs", content, **octets))
        if found["sha256"] != hashlib.sha256(content).hexdigest():
            self._ledger.wrong(f"a blob goes by another name than its own: {found}")
        self._ledger.blobs.append((found["sha256"], content))

    def _token(self, own: Kept) -> None:
        """A token opens its session; its refresh, sent again after a lost answer, is answered; the next one counts."""
        path = f"/v1/sessions/{own.id}/tokens"
        pair = self._answered(self._line.ask("POST", path, {}))
        for _ in range(2):
            began = time.monotonic()
            refresh = {"refresh_token": pair["refresh_token"]}
            found = self._line.ask("POST", "/v1/tokens/refresh", refresh)
            if found.status == 401 and found.sent > 1 and time.monotonic() - began > RETRY_WINDOW:
                return  # too late for a retry: the family is over, as it should be
            pair = self._answered(found)
            line = Line(self._line.server, pair["access_token"])
            self._answered(line.ask("GET", f"/v1/sessions/{own.id}"))


def shared_sessions(server: Server, ledger: Ledger, key: str, users: list[str], count: int) -> list[Kept]:
    """Sessions that everybody writes to."""
    line, made = Line(server, key), []
    for number in range(count):
        body = {"title": f"shared {number}", "tags": ["tortured"], "vars": {"number": 0}}
        body["isolation"] = {"model": "per_user", "users": users}
        found = line.ask("POST", "/v1/sessions", body, idempotency_key=f"shared-{number}")
        made.append(Kept(found.body["session_id"], found.body["version"], key, shared=True))
    ledger.sessions += made
    return made
