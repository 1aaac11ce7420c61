"""A process that archives, thaws, backs up or restores for ever, until it is killed; it says `ready` before."""

import os
import sys
from itertools import count

import perdure
from perdure.compose import copying
from perdure.services.backup import Backups
from perdure.services.restore import Restores
from perdure.waiting import drive


def put_away(store: str, cold: str) -> None:
    """Every session to cold storage and back."""
    with perdure.open(store, cold=cold) as db:
        sessions = [row.session for row in db.find().items]
        ready()
        for _ in count():
            for session in sessions:
                db.archive(session)
            for session in sessions[::2]:
                db.restore_archived(session)


def back_up(store: str, target: str) -> None:
    """The same backup again and again."""
    backups = Backups(copying("0"))
    ready()
    for _ in count():
        drive(backups.back_up(store, target, overwrite=True))


def restore(backup: str, target: str) -> None:
    """The same store restored again and again over itself."""
    restores = Restores(copying("0"))
    drive(restores.restore(backup, target, overwrite=True, dry_run=True))  # everything is loaded before the kill
    ready()
    for number in count():
        drive(restores.restore(backup, target, overwrite=True))
        aside = f"{target}.replaced"
        if number and os.path.exists(aside):
            os.unlink(aside)


def ready() -> None:
    """Tell whoever waits that the work begins."""
    print("ready", flush=True)


if __name__ == "__main__":
    {"archive": put_away, "backup": back_up, "restore": restore}[sys.argv[1]](*sys.argv[2:])
