"""`python -m torture`: kill processes at every moment and look for a lost write. Exit code 1 if one is found."""

import argparse
import random
import sys

from torture.run import PLANTS, Options, run

KILLS, QUICK_KILLS, MINUTES = 300, 24, 30.0


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m torture", description=__doc__)
    parser.add_argument("--seed", type=int, help="replay the schedule of an earlier run")
    parser.add_argument("--kills", type=int, help=f"stop after this many (default {KILLS}, with --minutes none)")
    parser.add_argument("--minutes", type=float, help=f"stop after this long (default {MINUTES:g})")
    parser.add_argument("--quick", action="store_true", help=f"a taste: {QUICK_KILLS} kills, every kind of fault")
    parser.add_argument("--plant", choices=PLANTS, help="torture a worker with this bug, which must be found")
    kinds = parser.add_mutually_exclusive_group()
    kinds.add_argument(
        "--sealed", action="store_true", default=True, help="sealed stores, as users have them (default)"
    )
    kinds.add_argument("--clear", dest="sealed", action="store_false", help="stores in the clear")
    parser.add_argument("--keep", action="store_true", help="keep the stores when something is found")
    chosen = parser.parse_args()
    kills = chosen.kills
    if kills is None and (chosen.quick or chosen.minutes is None):
        kills = QUICK_KILLS if chosen.quick else KILLS
    options = Options(
        seed=random.SystemRandom().randrange(10**9) if chosen.seed is None else chosen.seed,
        kills=kills,
        minutes=chosen.minutes or MINUTES,
        quick=chosen.quick,
        plant=chosen.plant,
        keep=chosen.keep,
        sealed=chosen.sealed,
    )
    kind = "--sealed" if options.sealed else "--clear"
    print(f"torture: seed {options.seed}; replay with --seed {options.seed} {kind}", flush=True)
    tally = run(options, lambda line: print(line, flush=True))
    print(tally.table())
    for problem in tally.problems[:20]:
        print(f"FOUND: {problem[-1500:]}", file=sys.stderr)
    verdict = f"{len(tally.problems)} problems" if tally.problems else "nothing lost, nothing doubled, nothing changed"
    print(f"torture: {verdict} after {tally.killed} kills in {tally.seconds:.0f} s (seed {options.seed}, {kind})")
    return 1 if tally.problems else 0


if __name__ == "__main__":
    sys.exit(main())
