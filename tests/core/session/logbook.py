"""A session kept in memory, as pure as the core: decide, write, fold. Shared by the tests of the session core."""

from collections.abc import Sequence
from hashlib import sha256
from typing import Any

from perdure.core.session import budget, caps, chain, ids
from perdure.core.session import commands as do
from perdure.core.session import state as states
from perdure.core.session.budget import Account, AccountMove
from perdure.core.session.decide import Facts, decide
from perdure.core.session.event import Entry, Event, Payload, Shared
from perdure.core.session.ids import Digest, SessionId, Version
from perdure.core.session.kinds import payload_of
from perdure.core.session.record import Record
from perdure.core.session.wishes import Decided, Wish, with_automatic_checkpoints
from perdure.core.session.write import Base, Checkpoint, Mark, Stamp, Written, restore, write

SESSION = SessionId("01940c2e-7d1e-7abc-8def-0123456789ab")
RAW = ids.raw(SESSION)
NOON = 1_767_268_800_000_000
SECOND = 1_000_000


def event_of(payload: Payload, version: int = 1, *, at: int = NOON, redacted: bool = False, **entry: Any) -> Event:
    """An event in an envelope of its own, outside any chain; `entry` are agent, child_agent, target, turn."""
    shared = Shared("tenant", SESSION, RAW, version, bytes(16), at, "someone", 0, None, payload_of)
    fields: dict[str, Any] = {"agent": None, "child_agent": None, "target": payload.aim(), "turn": None} | entry
    held = Entry(payload.kind, payload.kind_version, **fields, blind=None if redacted else bytes(16), data=b"")
    return Event(shared, held, Version(version), bytes(32), Digest(bytes(32)), payload)


def stamp(at: int = NOON, seed: bytes = b"", count: int = 64) -> Stamp:
    """What an append at this time shares; the chance in it follows from the seed."""
    blinds = b"".join(sha256(seed + index.to_bytes(4, "big")).digest()[:16] for index in range(count))
    uid = ids.uuid7(at // 1000, sha256(b"uid" + seed).digest()[:10])
    return Stamp(tenant="tenant", session=SESSION, raw_session=RAW, uid=uid, at=at, actor="someone", blinds=blinds)


class Logbook:
    """Commands in, events out. Whatever the services and a store would keep is kept in plain fields."""

    def __init__(self) -> None:
        self.at = NOON
        self.state = states.BLANK
        self.digest = chain.genesis(RAW)
        self.events: list[Event] = []
        self.records: list[tuple[Record, bytes]] = []
        self.steps: list[states.State] = [states.BLANK]
        self.checkpoints: list[Checkpoint] = []
        self.accounts: dict[str, Account] = {}

    @property
    def account(self) -> Account:
        """The account's money; `accounts` has its other parts."""
        return self.accounts.get("purse", Account())

    def begin(self, **fields: Any) -> "Logbook":
        """Create the session, active unless asked otherwise; a cap in the configuration opens the account."""
        command = do.Create(**{"activate": True, "account": "purse"} | fields)
        self._move(caps.opened("purse", caps.caps_of(command.config)))
        self.do(command)
        return self

    def do(self, command: do.Command, *, facts: dict[str, Any] | None = None) -> tuple[Event, ...]:
        """Decide, write and take over; whatever is refused changes nothing."""
        decided = decide(self.state, command, Facts(at=self.at, **facts or {}))
        return self.take(with_automatic_checkpoints(self.state, decided, self.at))

    def take(self, decided: Decided) -> tuple[Event, ...]:
        """Make drafts durable, or what stands for that here."""
        if not decided:
            return ()
        seed = len(self.records).to_bytes(4, "big")
        drafts = [self._mark(item) if isinstance(item, Wish) else item for item in decided]
        written = write(self.state, self.digest, drafts, stamp(self.at, seed, len(drafts)))
        self._move(budget.moves("purse", tuple(event.data for event in written.events)))
        self._keep(written)
        return written.events

    def _move(self, moves: tuple[AccountMove, ...]) -> None:
        """All of them, or none."""
        moved = dict(self.accounts)
        for move in moves:
            moved[move.account] = budget.apply(moved.get(move.account, Account()), move)
        self.accounts = moved

    def _mark(self, wish: Wish) -> Mark:
        seq = self.state.checkpoints.seq
        base = Base(seq, self.document(seq)) if seq else None
        number = len(self.checkpoints) + 1
        return Mark(id=f"c{number}", trigger=wish.trigger, label=wish.label, metadata=wish.metadata, base=base)

    def document(self, seq: int) -> dict[str, Any]:
        """The state document of a checkpoint, through its chain of deltas."""
        item = self.checkpoints[seq - 1]
        return restore(item.payload, None if item.base is None else self.document(item.base))

    def _keep(self, written: Written) -> None:
        self.records.append((written.record, written.digest))
        for event in written.events:
            self.steps.append(states.evolve(self.steps[-1], event))
        self.events += written.events
        self.checkpoints += written.checkpoints
        self.state, self.digest = written.state, written.digest

    def say(self, *payloads: Payload) -> tuple[Event, ...]:
        """Append payloads as a caller would."""
        return self.do(do.Append(drafts=drafts(payloads)))


def drafts(payloads: Sequence[Payload]) -> tuple[Any, ...]:
    """Payloads as an append wants them."""
    from perdure.core.session.decide import drafts_of

    return drafts_of(list(payloads))
