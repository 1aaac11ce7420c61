"""The page of what consolidation makes of planted faults: every set, by whatever may be installed."""

from pathlib import Path
from typing import Final, Literal

from evals.asking import recorded
from evals.drawing import COUNT, drawn
from evals.planted import evaluate, truth, worded
from evals.wordings import HELD_OUT

PAGE = Path(__file__).parents[1] / "docs" / "CONSOLIDATION-EVAL.md"
_HEAD = """# Consolidation, measured

`python -m evals.planted --write-docs` made this table. Each row is a consolidation of 5,000 memories, of which 1,000
are planted: a third say again what another one says, a third are made untrue by a later one, a third are over or
trifles. A duplicate is handled when one of both is left, what is outdated when the later one supersedes it, what is
stale when it is no longer live. Touched is every other memory that is not exactly what it was before. After each run
its undo restored every memory exactly.

`drawn` comes from a generator that has stood beside the rules since they were first written. The others were worded
freely, by writers who knew nothing of rules or weights, and nothing was learnt from them: `general` and `mixed` as
people note things down, `folks`, `forty` and `coder` as assistants do (of a few hundred people, of forty whom they
know by first name, of projects and who works on them), `mingled`, `public` and `team` with the two notes of a pair
worded apart from each other, so that they share few words (`Everything we sell to Redfern Textiles is reduced by half`
and `We agreed to give Redfern Textiles 50% off`). `claimed`, `checked` and `tested` are by writers who were told what
consolidation claims to do and that they should check it, and nothing else; `tested` came last, when all else was done.
The other sets of evals/wordings are what was learnt from (`make learn-reader`, `make learn-pairs`), and four by which
it was told how sure one must be.

A few things are not quite as untouched as that: pairs of `folks` and `team` that were never compared were read before
it was mended how kin are recognised (`mum`, `neighbour Carol`), four misses of `claimed` were seen, and of two earlier
readers that did about as well on the sets tuned on, the one was kept that did slightly better on more of the held-out
sets.

`asked` is a cheap model, which gets the pairs that are in doubt (642 of `general` to 1,822 of `coder`), at about one
cent where it costs $0.10 per million tokens. `who knows` answers from what was planted: it tells how much the pairs
that are asked about can bring. `a model` is what a language model answered, which knew nothing of the sets, and was
shown the pairs of one set and what any model is told that is asked; its answers are kept (evals/answers.jsonl.xz), so
that the same comes of it again. It was a large one, and got the pairs in lists of a few hundred, not by twenties; a
smaller one may know less.

| memories | embedder | read | asked | handled | others touched | seconds |
|---|---|---|---|---|---|---|
"""
WAYS: Final[tuple[tuple[str, Literal["auto", "none"], str], ...]] = (
    ("none", "none", "nobody"),
    ("wordllama", "none", "nobody"),
    ("wordllama", "auto", "nobody"),
    ("minilm", "auto", "nobody"),
    ("minilm", "auto", "a model"),
    ("minilm", "auto", "who knows"),
)
"""What is installed: nothing, the lightest embedder, that and a reader, the better embedder and a reader; and whether
somebody is asked.
"""


async def table() -> int:
    """Measure all that stands in the page, and write it."""
    lines, good, said = [_HEAD], True, recorded()
    for name in ("drawn", *HELD_OUT):
        memories = drawn(COUNT, 7) if name == "drawn" else worded(name)
        words = {"nobody": None, "a model": said, "who knows": truth(memories)}
        for embedder, reader, asked in WAYS:
            if asked == "a model" and name == "drawn":
                continue  # there is nothing that it answered
            result = await evaluate(memories, embedder, reader, words[asked])
            handled, touched = result.handled / result.planted, result.touched / result.others
            told = f"{asked} | {handled:.1%} | {touched:.2%} | {result.seconds:.0f}"
            lines.append(f"| {name} | {embedder} | {'yes' if reader == 'auto' else 'no'} | {told} |\n")
            print(lines[-1], end="", flush=True)
            good &= result.exact
    PAGE.write_text("".join(lines))
    return 0 if good else 1
