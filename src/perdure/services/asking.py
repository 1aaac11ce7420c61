"""What a run does about doubtful pairs: a model is asked, as far as the money goes; of the rest is done what would be
done without one.

What a question may cost is set aside in the log before it is asked, and what the model said is written with the steps
that come of it. So a run that is killed while it asks has not spent more than it says, and whoever goes on with it asks
about nothing twice but the question that was in flight.
"""

from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b
from typing import Final

from perdure.core.memory.consolidating import judged
from perdure.core.memory.judging import shared_out
from perdure.core.memory.parts import Memory, Space, Status
from perdure.core.memory.shelf import Run
from perdure.core.memory.steps import Doubt
from perdure.services.judging import FAILED, Judgement, Judging, Unasked
from perdure.services.runs import Choosing, Chosen, Runs, Spent
from perdure.services.shelves import Shelves

AT_ONCE: Final = 20
"""Pairs in one question."""
ASKED: Final = 2_000
"""Pairs that a model is asked about in one run, at most."""
IN_VAIN: Final = 3
"""Questions in a row without a word that counts, after which no more are asked."""
NO_MONEY: Final = "not asked: one question may cost more than `asking` allows"
Told = Callable[[Run, int, int], None]
"""Is told of the run, and how many pairs of how many somebody was asked about."""


class Asking:
    """Asks for runs."""

    def __init__(self, shelves: Shelves, runs: Runs, judging: Judging, batch: int) -> None:
        self._shelves, self._runs, self._judging, self._batch = shelves, runs, judging, batch

    async def over(self, space: Space, run: Run, doubts: Sequence[Doubt], told: Told) -> tuple[Run, str]:
        """The run when nothing is doubtful any more, and what was lacking. Raises `Lost`."""
        memories = (await self._shelves.look(space)).shelf.memories
        questions, left = shared_out(doubts, memories, AT_ONCE, ASKED)
        total, done, vain, lacking = sum(map(len, questions)), 0, 0, ""
        while questions and not lacking and vain < IN_VAIN:
            if not (some := await self._live(space, questions.pop(0))):
                continue
            try:
                run, heard = await self._asked(space, run, some)
            except Spent:
                lacking = "" if run.model else NO_MONEY
                left += some
                break
            except Unasked as why:
                lacking = str(why)
                left += some
                break
            vain = 0 if any(heard.words) else vain + 1
            lacking, done = heard.lacking, done + len(some)
            told(run, done, total)
        if vain == IN_VAIN:
            lacking = FAILED
        left += (doubt for some in questions for doubt in some)
        left = [doubt for doubt in left if doubt.otherwise is not None]
        for first in range(0, len(left), self._batch):
            run = await self._runs.stepped(space, run, "same", _otherwise(left[first : first + self._batch]))
        return run, lacking

    async def _live(self, space: Space, doubts: Sequence[Doubt]) -> list[Doubt]:
        """Those of which both memories are still there."""
        memories = (await self._shelves.look(space)).shelf.memories
        live = {id for doubt in doubts for id in (doubt.older, doubt.newer) if _is_live(memories, id)}
        return [doubt for doubt in doubts if {doubt.older, doubt.newer} <= live]

    async def _asked(self, space: Space, run: Run, doubts: Sequence[Doubt]) -> tuple[Run, Judgement]:
        """Ask about pairs, and do what the answer comes to."""
        memories = (await self._shelves.look(space)).shelf.memories
        question = self._judging.posed([(memories[doubt.older], memories[doubt.newer]) for doubt in doubts])
        run = await self._runs.set_aside(space, run, question.worst, self._judging.budget)
        heard = await self._judging.judge(question, _key(run, doubts))
        choose = _heeding(doubts, heard.words)
        spent = heard.cost - question.worst
        return await self._runs.stepped(space, run, "same", choose, model=heard.model, cost=spent), heard


def _is_live(memories: Mapping[str, Memory], id: str) -> bool:
    return id in memories and memories[id].status is Status.LIVE


def _heeding(doubts: Sequence[Doubt], words: Sequence[str]) -> Choosing:
    """What comes of somebody's words. A pair that there was a word for is not asked about again."""

    def choose(memories: Mapping[str, Memory]) -> list[Chosen]:
        both = zip(doubts, words, strict=True)
        return [(judged(doubt, word, memories), (doubt.older, doubt.newer) if word else None) for doubt, word in both]

    return choose


def _otherwise(doubts: Sequence[Doubt]) -> Choosing:
    return lambda memories: [(judged(doubt, "", memories), None) for doubt in doubts]


def _key(run: Run, doubts: Sequence[Doubt]) -> str:
    """The same for the same question of a run: one that is gone on with asks about fewer."""
    named = "".join(f"{doubt.older}{doubt.newer}" for doubt in doubts)
    return f"{run.id}:{blake2b(named.encode(), digest_size=8).hexdigest()}"
