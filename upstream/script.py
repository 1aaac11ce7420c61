"""What happens, told by the name of the model. Names are joined by `+`: `tokens-100+slow-5ms`, `tool:weather+slow-1ms`.

=====================  ================================================================================================
echo                   says what the user said last; so does every name that is not in this table
tokens-N               says N words, each of which is a token
tool:NAME              calls the tool (or several: `tool:A,B`) with the JSON object in the user's message, if any; once
                       it has results, says them
think                  thinks before it speaks (Anthropic's form)
slow-50ms, slow-2s     takes this long for each token, and for the first
window-N               refuses a prompt of more than N tokens, as the provider does
400, 401, 529, ...     fails with this status; `after-N` adds the header Retry-After
429-then-ok            fails so once for each idempotency key (or body), then answers; with every status
flaky-N                fails with 500 the first N times this name is asked for, then answers
overloaded             is overloaded, as the provider tells it
overloaded-mid-stream  tells so in the middle of a stream; `overloaded-first`: as the first thing in it
cut-mid-stream         hangs up in the middle of an answer; `cut-at-start`: before it
silent-end             ends a stream properly, but before the answer is whole
malformed-chunk        sends something that is no JSON in the middle; `malformed-first`: at the start
hang, hang-mid-stream  says nothing (more), and does not hang up either
html                   sends a page, with status 200
error-200              sends an error, with status 200
redirect               sends the client elsewhere
comments               sends comments and blank lines between the events, and lines that end in CR LF
=====================  ================================================================================================
"""

import re
from dataclasses import dataclass
from functools import lru_cache

_STATUS = re.compile(r"([3-5]\d\d)(-then-ok)?")
_NUMBER = re.compile(r"(tokens|window|after|flaky)-(\d+)")
_SLOW = re.compile(r"slow-(\d+(?:\.\d+)?)(ms|s)")
_FAULTS = frozenset(
    "overloaded overloaded-first overloaded-mid-stream cut-mid-stream cut-at-start silent-end malformed-chunk "
    "malformed-first hang hang-mid-stream html error-200 redirect".split()
)


@dataclass(frozen=True, slots=True)
class Script:
    """What happens to a request."""

    model: str
    tokens: int | None = None
    tools: tuple[str, ...] = ()
    think: bool = False
    delay: float = 0.0
    window: int | None = None
    status: int = 0
    then_ok: bool = False
    after: int | None = None
    flaky: int = 0
    fault: str = ""
    comments: bool = False


@lru_cache(1_000)
def script(model: str) -> Script:
    """What the name of a model asks for."""
    found: dict[str, object] = {}
    for part in model.split("+"):
        if status := _STATUS.fullmatch(part):
            found |= {"status": int(status[1]), "then_ok": status[2] is not None}
        elif number := _NUMBER.fullmatch(part):
            found[number[1]] = int(number[2])
        elif slow := _SLOW.fullmatch(part):
            found["delay"] = float(slow[1]) / (1000 if slow[2] == "ms" else 1)
        elif part.startswith("tool:"):
            found["tools"] = tuple(part.removeprefix("tool:").split(","))
        elif part in ("think", "comments"):
            found[part] = True
        elif part in _FAULTS:
            found["fault"] = part
    return Script(model=model, **found)  # type: ignore[arg-type]
