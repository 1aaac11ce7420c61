"""What is asked and what is said, whatever the form: words that are tokens, calls of tools, what was used."""

from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

import msgspec

from upstream.script import Script

BYTES_PER_TOKEN = 4
CACHED_FROM = 1_024
"""Tokens from which OpenAI caches by itself."""
LOOKBACK = 20
"""Blocks before a mark in which Anthropic looks for what it cached."""
MOST_CACHED = 100_000


@dataclass(slots=True)
class Asked:
    """A request, as far as an answer depends on it."""

    model: str
    stream: bool
    words: str = ""
    results: list[str] = field(default_factory=list)
    limit: int | None = None
    prompt: list[bytes] = field(default_factory=list)
    marks: list[int] = field(default_factory=list)
    usage_wanted: bool = False

    @property
    def tokens(self) -> int:
        """How many tokens the prompt is."""
        return sum(map(len, self.prompt)) // BYTES_PER_TOKEN


@dataclass(slots=True)
class Used:
    """Tokens: of the prompt, from and into the cache, and of the answer."""

    prompt: int
    read: int = 0
    written: int = 0
    answer: int = 0


@dataclass(slots=True)
class Saying:
    """An answer: words, calls (name and arguments as JSON), and whether it reached its limit."""

    words: list[str]
    calls: list[tuple[str, str]]
    thoughts: list[str]
    cut_off: bool
    number: int


def saying(asked: Asked, script: Script, number: int) -> Saying:
    """What is said to a request."""
    words: list[str] = []
    calls: list[tuple[str, str]] = []
    if script.tools and not asked.results:
        calls = [(name, _arguments(asked.words)) for name in script.tools]
    elif script.tokens is not None:
        words = [f"w{at} " for at in range(script.tokens)]
    elif script.tools:
        words = f"{', '.join(script.tools)} said: {' '.join(asked.results)}".split(" ")
        words = [f"{word} " for word in words[:-1]] + words[-1:]
    else:
        said = asked.words or " ".join(asked.results)
        words = [f"{word} " for word in said.split(" ")[:-1]] + said.split(" ")[-1:]
    cut_off = asked.limit is not None and len(words) > asked.limit
    thoughts = ["I ", "should ", "answer."] if script.think else []
    return Saying(words[: asked.limit] if cut_off else words, calls, thoughts, cut_off, number)


def _arguments(words: str) -> str:
    start = words.find("{")
    if start >= 0:
        end = words.rfind("}") + 1
        try:
            return msgspec.json.encode(msgspec.json.decode(words[start:end].encode())).decode()
        except msgspec.DecodeError:
            pass
    return "{}"


def spoken(content: Any) -> str:
    """The words of a content, which is a string or a list of parts."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return " ".join(part["text"] for part in parts if isinstance(part, dict) and isinstance(part.get("text"), str))


class Cache:
    """What was seen of prompts: everything from the start up to some block."""

    def __init__(self) -> None:
        self._seen: set[bytes] = set()

    def marked(self, asked: Asked) -> tuple[int, int]:
        """Tokens read and written as Anthropic counts them: up to the last mark."""
        if not asked.marks:
            return 0, 0
        sums = self._sums(asked.prompt[: asked.marks[-1] + 1])
        near = {at for mark in asked.marks for at in range(max(0, mark - LOOKBACK), mark + 1)}
        found = max((at + 1 for at in near if sums[at] in self._seen), default=0)
        self._keep(sums[mark] for mark in asked.marks)
        read = sum(map(len, asked.prompt[:found])) // BYTES_PER_TOKEN
        return read, sum(map(len, asked.prompt[: asked.marks[-1] + 1])) // BYTES_PER_TOKEN - read

    def automatic(self, asked: Asked) -> int:
        """Tokens read as OpenAI counts them: the longest beginning that was seen, if it is long enough."""
        if asked.tokens < CACHED_FROM:
            return 0
        sums = self._sums(asked.prompt)
        found = next((at + 1 for at in range(len(sums) - 1, -1, -1) if sums[at] in self._seen), 0)
        self._keep(sums)
        read = sum(map(len, asked.prompt[:found])) // BYTES_PER_TOKEN
        return read - read % 128 if read >= CACHED_FROM else 0

    def _sums(self, blocks: list[bytes]) -> list[bytes]:
        running = blake2b(digest_size=16)
        sums = []
        for block in blocks:
            running.update(len(block).to_bytes(8, "big") + block)
            sums.append(running.digest())
        return sums

    def _keep(self, sums: Any) -> None:
        if len(self._seen) > MOST_CACHED:
            self._seen.clear()
        self._seen.update(sums)
