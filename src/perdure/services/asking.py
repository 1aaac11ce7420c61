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
from perdure.services.judging import Judgement, Judging, Unasked
from perdure.services.runs import Choosing, Chosen, Runs, Spent
from perdure.services.shelves import Shelves
from perdure.waiting import blocking

AT_ONCE: Final = 20
"""Pairs in one question."""
ASKED: Final = 2_000
"""Pairs that a model is asked about in one run, at most."""
IN_VAIN: Final = 3
"""Questions in a row without a word that counts, after which no more are asked. Where there are fewer, all of them."""
NOBODY: Final = "not asked: where the run came to its end there is no model"
NO_MONEY: Final = "not asked: one question may cost more than `asking` allows"
Told = Callable[[Run, int, int], None]
"""Is told of the run, and how many pairs of how many somebody was asked about."""


class Asking:
    """Asks for runs. Without a judge, it does what is done then."""

    def __init__(self, shelves: Shelves, runs: Runs, judging: Judging | None, batch: int) -> None:
        self._shelves, self._runs, self._judging, self._batch = shelves, runs, judging, batch

    @property
    def can(self) -> bool:
        """Whether there is somebody to be asked."""
        return self._judging is not None and not blocking()

    async def over(self, space: Space, run: Run, doubts: Sequence[Doubt], told: Told) -> Run:
        """The run when nothing is doubtful any more. Raises `Lost`."""
        memories = (await self._shelves.look(space)).shelf.memories
        questions, left = shared_out(doubts, memories, AT_ONCE, ASKED if self.can else 0)
        total, done, vain, lacking, answered = sum(map(len, questions)), 0, 0, "", False
        if run.asks and not self.can and not run.lacking:
            lacking = NOBODY
        while questions and not lacking:
            some = questions.pop(0)
            memories = (await self._shelves.look(space)).shelf.memories
            some = [doubt for doubt in some if _is_live(memories, doubt)]
            if not some:
                continue
            try:
                run, heard = await self._asked(space, run, some, memories)
            except Spent:
                left += some
                break
            except Unasked as why:
                lacking = str(why)
                left += some
                break
            answered |= any(heard.words)
            vain, done = 0 if any(heard.words) else vain + 1, done + len(some)
            is_useless = vain == IN_VAIN or not (answered or questions)
            lacking = heard.lacking or (heard.vain if is_useless else "")
            run = await self._runs.lacked(space, run, lacking)
            told(run, done, total)
        run = await self._runs.lacked(space, run, lacking)
        left += (doubt for some in questions for doubt in some)
        left = [doubt for doubt in left if doubt.otherwise is not None]
        for first in range(0, len(left), self._batch):
            run = await self._runs.stepped(space, run, "same", _otherwise(left[first : first + self._batch]))
        return run

    async def _asked(
        self, space: Space, run: Run, doubts: Sequence[Doubt], memories: Mapping[str, Memory]
    ) -> tuple[Run, Judgement]:
        """Ask about pairs, and do what the answer comes to."""
        judging = self._judging
        assert judging is not None
        question = judging.posed([(memories[doubt.older], memories[doubt.newer]) for doubt in doubts])
        if question.worst > judging.budget:
            raise Unasked(NO_MONEY)
        run = await self._runs.set_aside(space, run, question.worst, judging.budget)
        heard = await judging.judge(question, _key(run, doubts))
        choose = _heeding(doubts, heard.words)
        spent = heard.cost - question.worst
        return await self._runs.stepped(space, run, "same", choose, model=heard.model, cost=spent), heard


def _is_live(memories: Mapping[str, Memory], doubt: Doubt) -> bool:
    """Whether both are still there."""
    both = (memories.get(id) for id in (doubt.older, doubt.newer))
    return all(memory is not None and memory.status is Status.LIVE for memory in both)


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
