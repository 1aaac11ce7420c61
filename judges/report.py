"""The judges' words as people read them."""

from collections.abc import Sequence

from judges.suites import OURS, Verdict, version_of

HEAD = """# Judges

What tests that others wrote say of our adapters. `make judges` runs them all: the conformance kits that LangGraph and
the Claude Agent SDK publish, and the frameworks' own suites, unedited, from their source distributions (fetched by
hash), with our class swapped in by a pytest plugin. This page was written by `make judges ARGS=--write-docs`.

A run in which our class was never handed out counts as failed, and so does a kit that did not detect every capability.

"""


def table(verdicts: Sequence[Verdict]) -> str:
    """Counts, one judge a line; for one judge alone just its counts."""
    if len(verdicts) == 1:
        only = verdicts[0]
        skipped = f", {only.skipped} skipped" if only.skipped else ""
        return (
            f"{only.passed} passed, {only.failed} failed{skipped}, ours used {only.handed} times, {only.seconds:.0f} s"
        )
    lines = ["| judge | on | passed | failed | skipped by them | ours used |", "|---|---|---|---|---|---|"]
    lines += [
        f"| {item.judge} | {item.on} | {item.passed} | {item.failed} | {item.skipped} | {item.handed} × |"
        for item in verdicts
    ]
    return "\n".join(lines)


def page(verdicts: Sequence[Verdict]) -> str:
    """The whole page: what was judged with, the verdicts, and every test left out with its reason."""
    parts = [HEAD, table(verdicts), "\n\n## Suites\n"]
    for suite in OURS:
        chosen = f", those that `-k {suite.selection}` selects" if suite.selection else ""
        note = f", {suite.note}" if suite.note else ""
        parts.append(f"\n- **{suite.name}**: {version_of(suite.source)}, `{' '.join(suite.paths)}`{chosen}{note}.")
    parts.append("\n\n## Left out\n")
    left = [(suite, item) for suite in OURS for item in suite.deselected]
    parts += [f"\n- `{item.test}` ({suite.name}): {item.reason}." for suite, item in left] or ["\nNothing."]
    return "".join(parts) + "\n"
