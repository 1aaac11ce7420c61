"""From lines back to records: a machine that is fed an export line by line and hands out proven records.

Invariants: a record is handed out only when every digest in it follows from the ones before; nothing is known of a
session until its footer has been read (`finished`); the machine keeps one record at a time, however long the file.
"""

from hashlib import sha256
from itertools import pairwise
from typing import Final

import msgspec

from perdure.core.errors import Damaged, Invalid, UnknownKind
from perdure.core.session import ids, jsonl, kinds
from perdure.core.session import record as records
from perdure.core.session import state as states
from perdure.core.session.chain import genesis
from perdure.core.session.event import Entry, Event
from perdure.core.session.jsonl import Footer, Header, Line, from_hex, from_id, refuse
from perdure.core.session.record import Record
from perdure.core.session.redaction import Redacted
from perdure.core.session.state import State

MAX_RECORD: Final = 1 << 15
"""Events of one record: their ids count up in 15 bits."""


class Inherited(msgspec.Struct, frozen=True):
    """A stretch that was hashed under another session's id."""

    origin: bytes
    upto: int
    digest: bytes


class Rebuilder:
    """Feed it the lines with `take`; once `finished`, its fields say what the session is."""

    def __init__(self, tenant: str | None = None) -> None:
        self.finished = False
        self.header: Header | None = None
        self.state: State = states.BLANK
        self.anchor: tuple[int, bytes, bytes] | None = None
        self.segments: tuple[Inherited, ...] = ()
        self.digest = b""
        self.version = self.at = self.events = self.redacted = self.number = 0
        self._tenant = tenant
        self._session = b""
        self._ahead: list[Inherited] = []
        self._first: Line | None = None
        self._origin = b""
        self._uid = b""
        self._entries: list[Entry] = []
        self._digests: list[bytes] = []
        self._unexplained: set[int] = set()

    def take(self, text: bytes) -> tuple[Record, bytes] | None:
        """The record that this line shows to be complete, with the digest after it; `BadExport` names a bad line."""
        self.number += 1
        if self.finished:
            refuse(self.number, "nothing may follow the last line of an export")
        line = jsonl.read(text, self.number)
        if isinstance(line, Header):
            self._begin(line)
            return None
        if self.header is None:
            refuse(self.number, "the first line of an export tells whose session it is; this one does not")
        if isinstance(line, Footer):
            complete = self._flush()
            self._end(self.header, line)
            return complete
        complete = self._flush() if line.record == line.version else None
        self._add(self.header, line)
        return complete

    def cut_short(self) -> None:
        """Refuse when the lines ended before the footer."""
        if not self.finished:
            refuse(self.number + 1, "the export ends before its last line; it was cut")

    def _begin(self, line: Header) -> None:
        number = self.number
        if self.header is not None:
            refuse(number, "a second header; an export holds one session")
        if self._tenant is not None and line.tenant != self._tenant:
            refuse(number, f"the session belongs to tenant {line.tenant!r}; open the store as that one")
        from_hex(line.digest, number, "digest")
        self._session = from_id(line.session, number, "session")
        if line.anchor is not None:
            self._anchored(line)
        self.segments = tuple(
            Inherited(from_id(item.origin, number, "origin"), item.upto, from_hex(item.digest, number, "digest"))
            for item in line.segments
        )
        ends = [self.version, *(item.upto for item in self.segments), line.version]
        if any(after <= before for before, after in pairwise(ends)):
            refuse(number, "its anchor, segments and version are not in order")
        self._ahead = list(self.segments)
        self._origin = self._ahead[0].origin if self._ahead else self._session
        self.digest = self.anchor[1] if self.anchor is not None else genesis(self._origin)
        self.header = line

    def _anchored(self, line: Header) -> None:
        anchor, number = line.anchor, self.number
        assert anchor is not None
        content = jsonl.from_base64(anchor.state, number, "state")
        if sha256(content).digest() != from_hex(anchor.sha, number, "sha"):
            refuse(number, "the state it is anchored in does not match its checksum")
        try:
            self.state = states.from_bytes(content)
        except Invalid as wrong:
            refuse(number, "the state it is anchored in does not decode", wrong)
        place = (self.state.schema, self.state.version, self.state.tenant)
        if place != (states.SCHEMA_VERSION, anchor.version, line.tenant):
            refuse(number, "the state it is anchored in is that of another place")
        self.anchor = (anchor.version, from_hex(anchor.digest, number, "digest"), content)
        self.version = anchor.version

    def _add(self, header: Header, line: Line) -> None:
        """Put a line into the record it belongs to."""
        number, following = self.number, self.version + len(self._entries) + 1
        if line.version != following:
            refuse(number, f"it has version {line.version}, but {following} comes next")
        if self._ahead and self._ahead[0].upto < line.version:
            if self._entries:
                refuse(number, "its record reaches over the end of a segment")
            self.digest = genesis(self._ahead[1].origin if self._ahead[1:] else self._session, self._ahead[0].digest)
            del self._ahead[0]
            self._origin = self._ahead[0].origin if self._ahead else self._session
        uid = from_id(line.id, number, "id")
        if from_id(line.session, number, "session") != self._origin or line.tenant != header.tenant:
            refuse(number, "it belongs to another session")
        if not self._entries:
            if int.from_bytes(uid, "big") + MAX_RECORD >= 1 << 128:
                refuse(number, "its id leaves no room for the others of its record")
            self._first, self._uid = line, uid
        self._fits(line, uid)
        entry = jsonl.entry_of(line, number)
        if line.redacted and not _redactable(line.kind):
            refuse(number, f"a {line.kind} event is never redacted")
        self._entries.append(entry)
        self._digests.append(from_hex(line.digest, number, "digest"))

    def _fits(self, line: Line, uid: bytes) -> None:
        """Refuse a line that does not share what the events of one record share."""
        first = self._first
        assert first is not None
        index = len(self._entries)
        if index >= MAX_RECORD:
            refuse(self.number, f"its record has more than {MAX_RECORD} events")
        shared = (line.record, line.at, line.actor, line.epoch, line.key, uid)
        if shared != (first.version, first.at, first.actor, first.epoch, first.key, ids.step(self._uid, index)):
            refuse(self.number, f"it does not fit into the record that begins at version {first.version}")

    def _flush(self) -> tuple[Record, bytes] | None:
        """The record collected so far, proven."""
        first, header = self._first, self.header
        if first is None or header is None:
            return None
        start = self.number - len(self._entries)
        entries = tuple(self._entries)
        record = Record(
            records.FORMAT,
            self._origin,
            first.version,
            self._uid,
            first.at,
            first.actor,
            first.epoch,
            first.key,
            entries,
        )
        for index, digest in enumerate(records.digests(record, header.tenant, self.digest)):
            if digest != self._digests[index]:
                refuse(start + index, "it was changed after it was written")
        try:
            events = records.read(record, header.tenant, self.digest)
        except UnknownKind as unknown:
            raise UnknownKind(f"line {start} or after: {unknown.message}", **unknown.fields, line=start) from unknown
        for index, event in enumerate(events):
            try:
                self._prove(header, event, start + index)
            except Damaged as wrong:
                refuse(start + index, wrong.message, wrong)
        self._first, self._entries, self._digests = None, [], []
        self.digest, self.at = events[-1].digest, record.at
        return record, self.digest

    def _prove(self, header: Header, event: Event, number: int) -> None:
        """Fold an event, and compare it with what the header says of its place."""
        self.version = event.version
        self.events += 1
        self.redacted += event.redacted
        self.state = states.evolve(self.state, event)
        if self._ahead and self._ahead[0].upto == event.version and self._ahead[0].digest != event.digest:
            refuse(number, "the header gives another digest for the segment that ends here")
        if event.version == header.version and event.digest.hex() != header.digest:
            refuse(number, "the header gives another digest for this version")
        if self._origin == self._session:
            if event.redacted:
                self._unexplained.add(event.version)
            elif isinstance(event.data, Redacted):
                self._unexplained.difference_update(event.data.versions)

    def _end(self, header: Header, line: Footer) -> None:
        number, lineage = self.number, self.state.origin.lineage
        if from_hex(line.digest, number, "digest") != self.digest or line.events != self.events:
            refuse(number, "the last line does not fit the events before it; some are missing")
        if self.version < header.version:
            refuse(number, f"the header speaks of {header.version} versions, the file has {self.version}")
        if (self.state.session, self.state.tenant) != (header.session, header.tenant):
            refuse(number, "the session never begins in it")
        branched = (lineage.version, lineage.digest) if lineage is not None else None
        inherited = (self.segments[-1].upto, self.segments[-1].digest) if self.segments else None
        if branched != inherited and self.anchor is None:
            refuse(number, "the session does not begin where its segments end")
        if self._unexplained:
            refuse(number, f"version {min(self._unexplained)} lost its content, and no redaction says why")
        self.finished = True


def _redactable(kind: str) -> bool:
    return kind not in kinds.KINDS or kinds.KINDS[kind].redactable
