"""A process that sweeps until it is killed: `python -m tests.services.sweeping STORE LEDGER SEED`.

Its hooks write a line to the ledger for every call: step, session, key; and one that begins with AGAIN when the log
says that this step had been done before.
"""

import os
import random
import sys
import time
from typing import Any

import perdure
from perdure.core.session.cleanup import done
from perdure.services.cleanup import CleanupCall

STEPS = ("flush", "analytics", "promote", "scrub")
LEASE = 1.0


def main(store: str, ledger: str, seed: int) -> None:
    chance = random.Random(seed)
    descriptor = os.open(ledger, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def hook(session: perdure.Session, call: CleanupCall) -> None:
        again = done(session.state().life, call.step, call.hook)
        time.sleep(chance.random() / 30)
        os.write(descriptor, f"{'AGAIN ' if again else ''}{call.step} {call.session} {call.key}\n".encode())
        time.sleep(chance.random() / 30)

    with perdure.open(store, seal=False) as db:
        for step in STEPS:
            db.cleanup(step, hook, name="ledger")
        db.compensation("undo", _undone(descriptor))
        print("ready", flush=True)
        while True:
            db.sweep(limit=8, lease=LEASE)
            time.sleep(chance.random() / 100)


def _undone(descriptor: int) -> Any:
    def undo(session: perdure.Session, arguments: dict[str, Any]) -> None:
        os.write(descriptor, f"undo {session.id} {arguments['n']}\n".encode())

    return undo


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
