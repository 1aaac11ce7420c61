"""The page of what consolidation makes of planted faults: every set, by whatever may be installed."""

from pathlib import Path
from typing import Final, Literal

from evals.planted import COUNT, evaluate, planted, worded
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
and `We agreed to give Redfern Textiles 50% off`). `claimed` and `checked` are by writers who were told what
consolidation claims to do and that they should check it, and nothing else. The other sets of evals/wordings are what
was learnt from (`make learn-reader`, `make learn-pairs`), and four by which it was told how sure one must be.

A few things are not quite as untouched as that: pairs of `folks` and `team` that were never compared were read before
it was mended how kin are recognised (`mum`, `neighbour Carol`), four misses of `claimed` were seen, and of two earlier
readers that did about as well on the sets tuned on, the one was kept that did slightly better on more of the held-out
sets.

| memories | embedder | read | handled | others touched | seconds |
|---|---|---|---|---|---|
"""
WAYS: Final[tuple[tuple[str, Literal["auto", "none"]], ...]] = (
    ("none", "none"),
    ("wordllama", "none"),
    ("wordllama", "auto"),
    ("minilm", "auto"),
)
"""What is installed: nothing, the lightest embedder, that and a reader, the better embedder and a reader."""


async def table() -> int:
    """Measure all that stands in the page, and write it."""
    lines, good = [_HEAD], True
    for name in ("drawn", *HELD_OUT):
        for embedder, reader in WAYS:
            result = await evaluate(planted(COUNT, 7) if name == "drawn" else worded(name), embedder, reader)
            handled, touched = result.handled / result.planted, result.touched / result.others
            told = f"{handled:.1%} | {touched:.2%} | {result.seconds:.0f}"
            lines.append(f"| {name} | {embedder} | {'yes' if reader == 'auto' else 'no'} | {told} |\n")
            print(lines[-1], end="", flush=True)
            good &= result.exact
    PAGE.write_text("".join(lines))
    return 0 if good else 1
