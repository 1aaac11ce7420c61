"""What an answer must not be: a fault of the server, or a window into it."""

import re
from collections import Counter
from dataclasses import dataclass, field

from barrage.wire import Reply

_INSIDES = re.compile(
    rb"Traceback \(most|File \"[^\"]+\.py|\.py[:\"', ]|site-packages|"
    rb"\bperdure\.(?:core|edge|services|stores|compose|ports|sealing|ambient)\b|<class '|<function |\bobject at 0x|"
    rb"\b(?:Key|Type|Value|Attribute|Index|Recursion|Unicode\w*|Overflow|Assertion|Memory)Error\b|"
    rb"\b(?:apsw|psycopg|msgspec|uvicorn|httptools|asyncio)\b|\bSELECT\b.{1,200}\bFROM\b|INSERT INTO|\bsqlite_"
)
_FAULTS = {500, 501, 502, 504, 505}
_SHOWN = 700
_UNREADABLE = b"Invalid HTTP request received."
"""What is said to those who do not speak HTTP."""


@dataclass
class Tally:
    """What was sent, what came back, and what should not have."""

    sent: Counter[str] = field(default_factory=Counter)
    answers: Counter[int] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)
    seconds: float = 0.0
    before: int = 0
    after: int = 0
    notes: list[str] = field(default_factory=list)

    @property
    def total(self) -> int:
        """How many inputs."""
        return sum(self.sent.values())

    def table(self) -> str:
        """All of it, for people."""
        kinds = "\n".join(f"  {name:<14} {count:>8,}" for name, count in sorted(self.sent.items()))
        codes = ", ".join(f"{code or 'closed'}: {count:,}" for code, count in sorted(self.answers.items()))
        mib = 1024 * 1024
        memory = f"  memory of the server: {self.before / mib:.0f} MiB when warm, {self.after / mib:.0f} MiB at the end"
        return "\n".join(["inputs by kind:", kinds, f"answers: {codes}", memory, *self.notes])


def judged(reply: Reply, said: str, request: bytes, *, readable: bool, store: bytes) -> str | None:
    """What is wrong with an answer, if anything. What HTTP can read must be answered; what it cannot may be cut off. An
    error is a problem document, or what a provider's own client takes for one.
    """
    shown = f"{said}; sent {request[:_SHOWN]!r}; got {reply.status} {reply.body[:_SHOWN]!r}"
    if reply.hung:
        return f"no answer in time: {shown}"
    if reply.status in _FAULTS:
        return f"a fault: {shown}"
    if not reply.status and readable:
        return f"cut off without an answer: {shown}"
    if reply.headers.get("content-type", "").startswith("application/json") and b'"openapi"' in reply.body[:200]:
        return None
    everything = reply.raw + reply.body
    if store in everything or _INSIDES.search(everything):
        return f"shows what is inside: {shown}"
    media = reply.headers.get("content-type", "")
    told = "problem+json" in media or (reply.body.startswith(b"{") and b'"error":{' in reply.body[:100])
    if reply.status >= 400 and reply.body and readable and not told and reply.body != _UNREADABLE:
        return f"an error that is no problem document: {shown}"
    return None
