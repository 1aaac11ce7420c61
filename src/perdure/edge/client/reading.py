"""What a server says, as the types that the embedded library gives: equal to what it would give for the same log.

Invariant: an event that is handed out was proven: its data against its commitment, and its digest against the one
before it, wherever both came.
"""

from collections.abc import Iterable
from typing import Any, TypeVar

import msgspec

from perdure.core.errors import BadExport, Denied, Tampered, Unreachable
from perdure.core.session import chain, jsonl
from perdure.core.session import state as states
from perdure.core.session.budget import Account
from perdure.core.session.conversation import Item
from perdure.core.session.costs import Costs
from perdure.core.session.event import Event, Shared
from perdure.core.session.ids import Digest, SessionId, Version, raw, step
from perdure.core.session.kinds import KINDS, payload_of, unknown
from perdure.core.session.state import State
from perdure.core.session.transcript import Turn
from perdure.core.session.values import Ref
from perdure.core.session.woken import Uncallable, Woken
from perdure.ports.store import Change, Row
from perdure.services.blobs import BlobInfo
from perdure.services.checkpoints import CheckpointInfo, Restored
from perdure.services.lifecycle import Recovered
from perdure.services.merging import MergeReport
from perdure.services.proving import Problem
from perdure.services.verifying import Report

T = TypeVar("T")
_ROW = tuple(name for name in Row.__struct_fields__ if name not in ("session", "digest", "tags"))


def _told(document: Any, kind: type[T]) -> T:
    """A document as what it must be; `Unreachable` when another perdure, or none, made it."""
    try:
        return msgspec.convert(document, kind, strict=True)
    except msgspec.ValidationError as wrong:
        raise _foreign(str(wrong)) from wrong


def _foreign(why: str) -> Unreachable:
    return Unreachable(f"the server's answer is not one this perdure understands ({why}); use the same version on both")


def row_of(document: Any) -> Row:
    """A session as lists show it."""
    try:
        facts = {name: document[name] for name in _ROW}
        return Row(
            session=SessionId(document["session_id"]),
            digest=bytes.fromhex(document["digest"]),
            tags=tuple(document["tags"]),
            **facts,
        )
    except (KeyError, TypeError, ValueError) as wrong:
        raise _foreign(f"{type(wrong).__name__}: {wrong}") from wrong


def state_of(document: Any) -> State:
    """A state, from the view that holds it."""
    return states.from_bytes(states.document_bytes(document["state"]))


def account_of(document: Any) -> Account:
    """An account as it stands."""
    return _told({name: document[name] for name in Account.__struct_fields__}, Account)


def costs_of(document: Any) -> Costs:
    """What a session has cost so far."""
    limits = {limit: account_of(found) for limit, found in document["limits"].items()}
    return msgspec.structs.replace(_told({**document, "limits": {}}, Costs), limits=limits)


def change_of(document: Any) -> Change:
    """One committed append."""
    facts = {**document}
    return _told({"session": facts.pop("session_id"), **facts}, Change)


def checkpoint_of(document: Any) -> CheckpointInfo:
    """A checkpoint."""
    facts = {**document}
    return CheckpointInfo(id=facts.pop("checkpoint_id"), session=SessionId(facts.pop("session_id")), **facts)


def restored_of(document: Any) -> Restored:
    """What a checkpoint holds."""
    checkpoint, state = checkpoint_of(document["checkpoint"]), state_of(document["state"])
    return Restored(checkpoint=checkpoint, state=state, rebuilt=document["rebuilt"])


def merged_of(document: Any) -> MergeReport:
    """What a merge did."""
    facts = {**document}
    return _told({"session": facts.pop("session_id"), **facts}, MergeReport)


def report_of(document: Any) -> Report:
    """What was found when a session was checked."""
    facts = {**document}
    problems = tuple(_told(item, Problem) for item in facts.pop("problems"))
    return Report(session=SessionId(facts.pop("session_id")), problems=problems, **facts)


def recovered_of(document: Any) -> Recovered | None:
    """A turn that was closed, if there was one."""
    return None if document is None else _told(document, Recovered)


def woken_of(document: Any) -> Woken:
    """How a session came to go on. Its tools live at the server: what can be called there cannot be called here."""
    found = _told(document, Woken)
    tools = {name: msgspec.structs.replace(tool, call=_call(tool.call)) for name, tool in found.tools.items()}
    return msgspec.structs.replace(found, tools=tools)


def _call(call: Any) -> Any:
    return _told(call, Uncallable) if type(call) is dict and "why" in call else None


def blob_of(document: Any) -> BlobInfo:
    """A blob."""
    return BlobInfo(
        ref=Ref(document["uri"], bytes.fromhex(document["sha256"])),
        size=document["size"],
        media_type=document["media_type"],
        name=document["name"],
        at=document["at"],
        used=document["used"],
    )


def item_of(document: Any) -> Item:
    """One item of a conversation."""
    facts = {**document}
    payloads = tuple(_told(item["data"], KINDS[item["kind"]]) for item in facts.pop("payloads"))
    return Item(payloads=payloads, **facts)  # type: ignore[arg-type]  # the server sends what was said, and no other kind


def turn_of(document: Any) -> Turn:
    """One exchange, from the events it is made of."""
    return Turn(number=document["number"], status=document["status"], events=tuple(events_of(document["events"])))


def events_of(documents: Iterable[Any], before: Event | None = None) -> list[Event]:
    """The events that lines of an export tell, proven; `before` is the one they follow, if it is known."""
    found: list[Event] = []
    for document in documents:
        event = _event(document)
        _must_follow(event, before)
        found.append(event)
        before = event
    return found


def _event(document: Any) -> Event:
    if type(document) is dict and "blind" not in document and "commitment" not in document:
        raise Denied("some fields are hidden from you by a policy, so events cannot be proven; ask for turns over HTTP")
    line = _told(document, jsonl.Line)
    known = KINDS.get(line.kind)
    if known is None or line.kind_version > known.kind_version:
        raise unknown(line.kind, line.kind_version)
    try:
        entry = jsonl.entry_of(line, line.version)
        digest = jsonl.from_hex(line.digest, line.version, "digest")
        origin, uid = jsonl.from_id(line.session, line.version, "session"), jsonl.from_id(line.id, line.version, "id")
    except BadExport as wrong:
        raise _foreign(wrong.message) from wrong
    shared = Shared(
        line.tenant,
        SessionId(line.session),
        origin,
        line.record,
        step(uid, line.record - line.version),
        line.at,
        line.actor,
        line.epoch,
        line.key,
        payload_of,
    )
    committed = entry.data if entry.blind is None else chain.commitment(entry.blind, entry.data)
    return Event(shared, entry, Version(line.version), committed, Digest(digest))


def _must_follow(event: Event, before: Event | None) -> None:
    """`Tampered` unless the digest of an event follows from the one before it. Where that did not come along, what the
    first event of a session follows is known; in the middle of a log it is not.
    """
    shared = event.shared
    if event.version == 1:
        previous = chain.genesis(shared.origin)
    elif before is None or before.version + 1 != event.version:
        return
    else:
        same = before.shared.origin == shared.origin
        previous = before.digest if same else chain.genesis(shared.origin, before.digest)
    header = chain.header_bytes(
        shared.tenant,
        shared.origin,
        event.version,
        event.uid,
        event.kind,
        event.kind_version,
        shared.at,
        shared.actor,
        event.agent,
        event.child_agent,
        event.target,
        event.turn,
        shared.epoch,
        shared.key,
    )
    if chain.link(previous, header, event.commitment) != event.digest:
        told = f"event {event.version} of session {event.session} does not follow from the one before it"
        raise Tampered(f"{told}; read it again, and verify the session at the server", version=event.version)


def session_of(document: Any) -> SessionId:
    """The session an answer is about."""
    spelled = document.get("session_id") if type(document) is dict else None
    if type(spelled) is not str:
        raise _foreign("it names no session")
    raw(spelled)
    return SessionId(spelled)
