"""A fresh process that proves the promise: `python -m torture.checker STORE LEDGER [--shared N] [--all]`.

It opens the store after a crash and compares it with the ledger: every acknowledged append is there once, in its place
and word for word; every other one whole or not at all; versions have no gaps and the chain holds; a retry under the
same key lands once. What it did and found goes to stdout as one JSON document.
"""

import argparse
import random
import sys
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import apsw
import msgspec

import perdure
from perdure import errors
from torture.content import compose, fingerprint, piece
from torture.ledger import Attempt, Ledger
from torture.line import Line
from torture.scan import STEPS, Group, groups_of
from torture.sealing import seal_of

MARKED = {
    "create": {"created"},
    "branch": {"created"},
    "suspend": {"moved", "checkpoint_taken"},
    "resume": {"moved"},
    "vars": {"vars_patched"},
    "redact": {"redacted"},
    "turn": {"turn_finished"},
}
"""The kind of event that an acknowledged operation leaves at the version it named."""
RESENT = 40
RESTORED = 4


class Verdict(msgspec.Struct, kw_only=True):
    """What one check found. `lines` are acknowledgements of retries, for the ledger."""

    problems: list[str] = []
    opened_ms: float = 0.0
    took_ms: float = 0.0
    sessions: int = 0
    events: int = 0
    acked: int = 0
    uncertain: int = 0
    landed: int = 0
    retried: int = 0
    resent: int = 0
    shared: list[str] = []
    lines: list[Line] = []


class Checker:
    """One look at one store."""

    def __init__(self, db: Any, ledger: Ledger) -> None:
        self.db = db
        self.ledger = ledger
        self.verdict = Verdict(problems=list(ledger.problems))
        self._logs: dict[str, list[Any]] = {}
        self._found: dict[str, list[Group]] = defaultdict(list)

    def bad(self, problem: str) -> None:
        """Note a problem."""
        self.verdict.problems.append(problem)

    def look(self) -> None:
        """Read every session and compare."""
        rows = self._rows()
        for row in rows:
            self._read(row)
        for row in rows:
            if row.parent is not None:
                self._share(row)
        for attempt in self.ledger.appends.values():
            self._compare(attempt)
        for name in set(self._found) - set(self.ledger.appends) - set(self.ledger.turns):
            self.bad(f"{name!r} is in {self._found[name][0].session}, but nobody was let in with it")
        for name, last in self.ledger.turns.items():
            self._compare_turn(name, last)
        for line in self.ledger.marks:
            self._compare_mark(line)
        for (session, version), done in self.ledger.redactions.items():
            if done and not self._event(session, version).redacted:
                self.bad(f"{session}@{version} was redacted and can be read again")
        self._compare_creates(rows)
        self._in_order()
        self.verdict.sessions = len(rows)
        self.verdict.events = sum(map(len, self._logs.values()))

    def _rows(self) -> list[Any]:
        rows, cursor = [], None
        while True:
            page = self.db.find(limit=200, cursor=cursor)
            rows += page.items
            if page.cursor is None:
                return rows
            cursor = page.cursor

    def _read(self, row: Any) -> None:
        """One session: contiguous, verified, and cut into the appends it is made of."""
        session = self.db.session(row.session)
        report = session.verify()
        if not report.ok:
            self.bad(f"{row.session} does not verify: {report.problems}")
        events = session.events()
        self._logs[row.session] = events
        if [event.version for event in events] != list(range(1, row.version + 1)):
            self.bad(f"{row.session} has {len(events)} events for version {row.version}, or not in order")
        own = events[row.branched_at or 0 :]
        for event in own:
            if event.redacted and (row.session, event.version) not in self.ledger.redactions:
                self.bad(f"{row.session}@{event.version} lost its content and nobody asked for it")
        groups = groups_of(row.session, own, self.verdict.problems)
        for group in groups:
            self._found[group.name].append(group)
        if groups and not groups[-1].ended and not groups[-1].stepwise:
            self.bad(f"{row.session} ends inside {groups[-1].name}: half an append")

    def _share(self, row: Any) -> None:
        """A branch begins with its parent's log, digest by digest."""
        mine, parents = self._logs[row.session], self._logs.get(row.parent, [])
        at = row.branched_at
        if [event.digest for event in mine[:at]] != [event.digest for event in parents[:at]]:
            self.bad(f"{row.session} does not share the log of {row.parent} up to {at}")

    def _compare(self, attempt: Attempt) -> None:
        """An append against what is in the store."""
        places = self._found.get(attempt.name, [])
        self.verdict.acked += attempt.last > 0
        self.verdict.uncertain += attempt.open
        if len(places) > 1:
            self.bad(f"{attempt.name} was applied twice: {[(place.session, place.last) for place in places]}")
        if attempt.last and not places:
            self.bad(f"LOST: {attempt.name} was acknowledged as {attempt.session}@{attempt.last} and is not there")
        if attempt.refused and places:
            self.bad(f"{attempt.name} was refused and is there at {places[0].session}@{places[0].last}")
        for place in places:
            self._compare_content(attempt, place)

    def _compare_content(self, attempt: Attempt, place: Group) -> None:
        wanted = [piece(payload) for payload in compose(attempt.name, attempt.shape)]
        if len(wanted) != len(place.pieces):
            self.bad(f"{attempt.name} has {len(place.pieces)} of {len(wanted)} events at {place.session}@{place.last}")
        elif any(found not in (None, want) for found, want in zip(place.pieces, wanted, strict=True)):
            self.bad(f"{attempt.name} says something else at {place.session}@{place.last}")
        if attempt.last and (place.session, place.last) != (attempt.session, attempt.last):
            self.bad(f"{attempt.name}: acknowledged {attempt.session}@{attempt.last}, at {place.session}@{place.last}")
        if attempt.hash and attempt.hash != fingerprint(compose(attempt.name, attempt.shape)):
            self.bad(f"{attempt.name} was acknowledged with other words")
        self.verdict.landed += attempt.open

    def _compare_turn(self, name: str, last: int) -> None:
        """A stepwise turn: whole if acknowledged, else a beginning of it."""
        places = self._found.get(name, [])
        kinds = places[0].kinds[1:] if places else []
        if kinds and kinds[-1] in ("turn_finished", "turn_interrupted"):
            ended, kinds = kinds[-1], kinds[:-1]
        else:
            ended = ""
        whole = ended == "turn_finished" and tuple(kinds) == STEPS
        if len(places) > 1 or tuple(kinds) != STEPS[: len(kinds)] or (ended == "turn_finished" and not whole):
            self.bad(f"turn {name} is not a beginning of what was written: {[place.kinds for place in places]}")
        if last and not whole:
            self.bad(f"LOST: turn {name} was acknowledged at {last} and is not there whole")

    def _event(self, session: str, version: int) -> Any:
        events = self._logs.get(session, [])
        return events[version - 1] if 0 < version <= len(events) else Missing

    def _compare_mark(self, line: Line) -> None:
        """An acknowledged operation that is not an append."""
        if line.session not in self._logs:
            self.bad(f"LOST: session {line.session} of {line.op} {line.name}")
        elif line.op == "checkpoint":
            if self._event(line.session, line.last + 1).kind != "checkpoint_taken":
                self.bad(f"LOST: checkpoint {line.name} at {line.session}@{line.last}")
        elif line.op in MARKED and self._event(line.session, line.last).kind not in MARKED[line.op]:
            found = self._event(line.session, line.last).kind
            self.bad(f"LOST: {line.op} {line.name} at {line.session}@{line.last}; there is {found}")

    def _compare_creates(self, rows: list[Any]) -> None:
        titles: dict[str, list[str]] = defaultdict(list)
        for row in rows:
            if row.parent is None:
                titles[row.title].append(row.session)
        for name, session in self.ledger.creates.items():
            made = titles.get(name, [])
            if len(made) > 1 or (session and made != [session]):
                self.bad(f"{name} made the sessions {made}, acknowledged was {session or 'none'}")

    def _in_order(self) -> None:
        """What one lane had acknowledged one after the other stands in that order."""
        latest: dict[tuple[str, str], int] = {}
        for name, attempt in self.ledger.appends.items():
            if attempt.last:
                place = (name.rpartition(".")[0], attempt.session)
                if latest.get(place, 0) >= attempt.last:
                    self.bad(f"{name} at {attempt.session}@{attempt.last} stands before an earlier append")
                latest[place] = attempt.last

    # ── sending again ──

    def retry(self, everything: bool, seed: str) -> None:
        """Send again what was never answered, and some of what was."""
        for name, session in self.ledger.creates.items():
            if not session:
                self._retry_create(name)
        touched = set()
        for attempt in self.ledger.appends.values():
            if attempt.open and attempt.key is not None:
                self._retry(attempt)
                touched.add(attempt.session)
        answered = [a for a in self.ledger.appends.values() if a.last and a.key is not None]
        if not everything:
            answered = random.Random(seed).sample(answered, min(RESENT, len(answered)))
        for attempt in answered:
            self._resend(attempt)
        if touched or answered:
            again = Checker(self.db, self.ledger)
            self.ledger.take(self.verdict.lines)
            again.look()
            self.verdict.problems += [f"after retries: {problem}" for problem in again.verdict.problems]

    def _retry_create(self, name: str) -> None:
        made = [self.db.create(title=name, key=name, tags=("torture",)).id for _ in range(2)]
        if made[0] != made[1]:
            self.bad(f"{name} made two sessions: {made}")
        self.verdict.lines.append(Line(do="mark", op="create", name=name, session=made[0], last=1))
        self.verdict.retried += 1

    def _retry(self, attempt: Attempt) -> None:
        """The client's view: no answer came, so send it again under the same key."""
        session = self.db.session(attempt.session)
        session.recover()
        if session.info().phase in ("suspended", "resumed"):
            session.resume()
        events, places = compose(attempt.name, attempt.shape), self._found.get(attempt.name, [])
        self.verdict.retried += 1
        try:
            version = session.append(events, expected=attempt.expected, key=attempt.key)
        except errors.VersionConflict:
            if attempt.expected is None or places:
                raise
            self.verdict.lines.append(Line(do="no", name=attempt.name, error="VersionConflict"))
            return
        if places and places[0].last != version:
            self.bad(f"{attempt.name} stands at {places[0].last}, its retry was answered {version}")
        said = fingerprint(events)
        self.verdict.lines.append(
            Line(do="ack", name=attempt.name, session=session.id, key=attempt.key, last=version, hash=said)
        )

    def _resend(self, attempt: Attempt) -> None:
        events = compose(attempt.name, attempt.shape)
        version = self.db.session(attempt.session).append(events, expected=attempt.expected, key=attempt.key)
        self.verdict.resent += 1
        if version != attempt.last:
            self.bad(f"{attempt.name} was acknowledged at {attempt.last}, sent again it was answered {version}")

    def restore(self, seed: str) -> None:
        """Some acknowledged checkpoints: the state they hold is the one the log leads to (R8)."""
        marks = [line for line in self.ledger.marks if line.op == "checkpoint"]
        for line in random.Random(seed).sample(marks, min(RESTORED, len(marks))):
            session = self.db.session(line.session)
            if session.restore(line.id).state != session.state(line.last):
                self.bad(f"checkpoint {line.name} does not hold the state of {line.session}@{line.last}")


class Missing:
    """Stands for an event that is not there."""

    kind = "nothing"
    redacted = True


def integrity(store: str) -> str:
    """What SQLite itself says about the file."""
    connection = apsw.Connection(store, flags=apsw.SQLITE_OPEN_READONLY)
    try:
        return str(connection.execute("PRAGMA integrity_check(5)").fetchall())
    finally:
        connection.close()


def check(store: str, ledger: Ledger, *, shared: int = 0, everything: bool = False) -> Verdict:
    """Open the store, prove everything, send again what was never answered, prove it again."""
    started = time.perf_counter()
    with perdure.open(store, seal=seal_of(store)) as db:
        opened = time.perf_counter()
        checker = Checker(db, ledger)
        verdict, seed = checker.verdict, str(len(ledger.appends))
        checker.look()
        if not verdict.problems:
            checker.retry(everything, seed)
            checker.restore(seed)
        for number in range(shared):
            name = f"create.shared.{number}"
            made = db.create(title=name, key=name, tags=("torture",)).id
            verdict.shared.append(made)
            verdict.lines += [Line(do="try", op="create", name=name)]
            verdict.lines += [Line(do="mark", op="create", name=name, session=made, last=1)]
        if "://" not in store and integrity(store) != "[('ok',)]":
            verdict.problems.append(f"integrity_check says {integrity(store)}")
    verdict.opened_ms = (opened - started) * 1000
    verdict.took_ms = (time.perf_counter() - started) * 1000
    return verdict


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m torture.checker", description=__doc__)
    parser.add_argument("store")
    parser.add_argument("ledger", type=Path)
    parser.add_argument("--shared", type=int, default=0, help="make sure of this many shared sessions")
    parser.add_argument("--all", action="store_true", help="send every acknowledged keyed append again")
    chosen = parser.parse_args()
    verdict = check(chosen.store, Ledger.load(chosen.ledger), shared=chosen.shared, everything=chosen.all)
    sys.stdout.buffer.write(msgspec.json.encode(verdict) + b"\n")


if __name__ == "__main__":
    main()
