"""`python -m barrage`: malformed input by the hundred thousand. Exit code 1 if anything is found."""

import argparse
import random
import signal
import sys

from barrage.run import Options, run

INPUTS, QUICK_INPUTS, MINUTES = 200_000, 4_000, 60.0
EXAMPLES, QUICK_EXAMPLES = 50, 3
SECONDS, QUICK_SECONDS = 3_600, 300


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m barrage", description=__doc__)
    parser.add_argument("--seed", type=int, help="send the inputs of an earlier run again")
    parser.add_argument("--inputs", type=int, help=f"how many of our own (default {INPUTS:,})")
    parser.add_argument("--first", type=int, default=0, help="the number of the first one, to send one again alone")
    parser.add_argument(
        "--minutes", type=float, default=MINUTES, help=f"stop them after this long (default {MINUTES:g})"
    )
    parser.add_argument("--examples", type=int, help=f"schemathesis' per operation (default {EXAMPLES}; 0: without it)")
    parser.add_argument("--phases", default="examples,coverage,fuzzing,stateful", help="schemathesis' phases")
    parser.add_argument("--quick", action="store_true", help=f"a taste: {QUICK_INPUTS:,} inputs, some schemathesis")
    chosen = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # in order, so that the server does not stay behind
    inputs = chosen.inputs if chosen.inputs is not None else QUICK_INPUTS if chosen.quick else INPUTS
    examples = chosen.examples if chosen.examples is not None else QUICK_EXAMPLES if chosen.quick else EXAMPLES
    options = Options(
        seed=random.SystemRandom().randrange(10**9) if chosen.seed is None else chosen.seed,
        inputs=inputs,
        minutes=chosen.minutes,
        fuzz=examples,
        fuzz_seconds=QUICK_SECONDS if chosen.quick else SECONDS,
        phases=chosen.phases,
        first=chosen.first,
    )
    print(f"barrage: seed {options.seed}; repeat with --seed {options.seed}", flush=True)
    tally = run(options, lambda line: print(line, flush=True))
    print(tally.table())
    for problem in tally.problems[:40]:
        print(f"FOUND: {problem[:20_000]}", file=sys.stderr)
    verdict = f"{len(tally.problems)} problems" if tally.problems else "no fault, no hang, nothing shown, nothing grown"
    print(f"barrage: {verdict} after {tally.total:,} inputs in {tally.seconds:.0f} s (seed {options.seed})")
    return 1 if tally.problems else 0


if __name__ == "__main__":
    sys.exit(main())
