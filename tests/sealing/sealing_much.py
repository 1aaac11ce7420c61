"""A process that writes into a store, branches and all, and notes every (key, nonce) pair that AES-GCM is used with."""

import random
import sys
from hashlib import sha256

import perdure
from perdure import errors, events
from perdure.sealing.xaes import Xaes


def watch(into: str) -> None:
    """Note the pairs of every seal from now on, 16 bytes each: enough to tell any two of a million apart."""
    file, seal = open(into, "ab"), Xaes.seal  # noqa: SIM115 - open for as long as the process lives

    def noted(self: Xaes, nonce: bytes, plain: bytes, bound: bytes) -> bytes:
        file.write(sha256(self._subkey(nonce) + nonce[12:]).digest()[:16])
        return seal(self, nonce, plain, bound)

    Xaes.seal = noted  # type: ignore[method-assign]


def work(path: str, steps: int, seed: str) -> None:
    """Append, branch, checkpoint, erase; each seals something."""
    chance = random.Random(seed)
    with perdure.open(path, snapshots=perdure.SnapshotPolicy(events=20)) as db:
        known = [db.named(row.session) for row in db.find(limit=20).items]  # some may be erased meanwhile
        for _ in range(steps):
            if not known:
                known.append(db.create(f"title {seed}"))
            session = chance.choice(known)
            try:
                step(db, known, session, chance)
            except (errors.NotFound, errors.KeyMissing):  # erased by the other process, or before the restore
                known.remove(session)


def step(db: perdure.Perdure, known: list[perdure.Session], session: perdure.Session, chance: random.Random) -> None:
    """One of the things that happen to sessions, mostly an append."""
    match chance.randrange(40):
        case 0:
            known.append(session.branch())
        case 1:
            known.append(db.create("another"))
        case 2:
            session.checkpoint("here")
        case 3:
            session.configure(title=f"title {chance.random()}")
        case 4 if len(known) > 5:
            session.erase()
            known.remove(session)
        case _:
            session.append([events.Message(role="user", content=f"words {chance.random()}")])


if __name__ == "__main__":
    watch(sys.argv[2])
    work(sys.argv[1], int(sys.argv[3]), sys.argv[4])
