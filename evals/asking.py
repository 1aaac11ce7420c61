"""A cheap model for evaluations: it is asked as any is, and answers from a list of pairs.

`truth` knows what was planted: nothing can be handled beyond what it leaves. `recorded` says what a language model said
to the same questions (evals/answers.jsonl.xz); what it was never asked it calls apart.
"""

import json
import lzma
from collections.abc import AsyncGenerator, Mapping
from pathlib import Path

from perdure.compose import Services
from perdure.core.talk.parts import Answer, Text, Usage
from perdure.core.talk.routes import Models, Upstream
from perdure.ports.provider import Form, Frame, Sending, Whole
from perdure.services.calling import Calling

Words = Mapping[tuple[str, str], str]
"""What is said of an earlier and a later text: same, newer or apart."""
ANSWERS = Path(__file__).parent / "answers.jsonl.xz"
PRICED = "gpt-4.1-nano"
"""A cheap model, whose price is reckoned with; nobody asks it."""
PER_TOKEN = 4
"""Characters of a token, about."""


class Answering:
    """A provider that answers from a list, and remembers what it was asked."""

    name = "openai"
    form: Form = "openai-chat"

    def __init__(self, words: Words) -> None:
        self._words = words
        self.asked: list[tuple[str, str]] = []
        self.unknown = 0

    async def whole(self, sending: Sending) -> Whole:
        """A word for each pair."""
        text = "".join(block.text for said in sending.ask.messages for block in said.blocks if isinstance(block, Text))
        shown = json.loads(text[text.index("[") : text.rindex("]") + 1])
        pairs = [(one["earlier"], one["later"]) for one in shown]
        self.asked += pairs
        self.unknown += sum(pair not in self._words for pair in pairs)
        told = {str(one["pair"]): self._words.get(pair, "apart") for one, pair in zip(shown, pairs, strict=True)}
        said = json.dumps(told)
        prompt = sum(len(part.text) for part in sending.ask.system) + len(text)
        usage = Usage(input=prompt // PER_TOKEN, output=len(said) // PER_TOKEN)
        return Whole(Answer(id="evals", model=PRICED, blocks=(Text(text=said),), stop="end", usage=usage))

    async def stream(self, sending: Sending) -> AsyncGenerator[Frame, None]:
        """Nobody wants it in pieces."""
        raise NotImplementedError
        yield Frame()

    async def close(self) -> None:
        """There is nothing to let go of."""


def ask_of(services: Services, words: Words) -> Answering:
    """Have services ask one who answers from a list, at the price of a cheap model."""
    found, common = Answering(words), services.common
    name = f"{found.name}/{PRICED}"
    upstream = Upstream(name=found.name, kind="openai-chat", retries=0)
    models = Models(upstreams={found.name: upstream}, default=name, cheap=name)
    common.calling = Calling(models, common.ambient, {found.name: found}, prices=common.prices)
    return found


def recorded() -> dict[tuple[str, str], str]:
    """What a language model said."""
    lines = lzma.decompress(ANSWERS.read_bytes()).decode().splitlines()
    return {(earlier, later): word for earlier, later, word in map(json.loads, lines)}
