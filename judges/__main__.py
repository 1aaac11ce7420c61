"""`python -m judges`: every judge on every kind of store; `--write-docs` keeps the outcome in docs/JUDGES.md."""

import argparse
import sys
from collections.abc import Iterator

from judges import kits
from judges.report import page, table
from judges.suites import OURS, Verdict, run, where


def verdicts(only: str, stores: tuple[str, ...]) -> Iterator[Verdict]:
    """One after the other, told as they come."""
    for name, kit in (("langgraph-checkpoint-conformance", kits.langgraph), ("claude_agent_sdk.testing", kits.claude)):
        for store in kits.STORES:
            if only in name and (not stores or store in stores):
                yield kit(store)
    for suite in OURS:
        for store in suite.stores:
            if only in suite.name and (not stores or store in stores):
                yield run(suite, store)


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m judges", description=__doc__)
    parser.add_argument("--only", default="", help="judges whose name has this in it")
    parser.add_argument("--store", action="append", default=[], help="only on this kind of store; may be repeated")
    parser.add_argument("--write-docs", action="store_true", help="write docs/JUDGES.md (with every judge)")
    chosen = parser.parse_args()
    if chosen.write_docs and (chosen.only or chosen.store):
        parser.error("--write-docs needs every judge on every store")
    found: list[Verdict] = []
    for verdict in verdicts(chosen.only, tuple(chosen.store)):
        found.append(verdict)
        print(f"{'PASS' if verdict.well else 'FAIL'}  {verdict.judge} on {verdict.on}: {table([verdict])}", flush=True)
        if not verdict.well:
            print(verdict.said[-4000:], file=sys.stderr)
    if chosen.write_docs:
        where().write_text(page(found), "utf-8")
    return 0 if found and all(verdict.well for verdict in found) else 1


if __name__ == "__main__":
    sys.exit(main())
