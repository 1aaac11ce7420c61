"""The acts of the tour, in order. Each tells, does, shows, and claims only what it checks."""

import warnings
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from rich.tree import Tree

from perdure.edge.cli import offline, output
from perdure.edge.cli.branching import conflict_path, conflict_table, patch_text
from perdure.edge.cli.demo import crash
from perdure.edge.cli.demo.stage import Stage
from perdure.edge.cli.text import counted, one_line
from perdure.ports.store import Row

if TYPE_CHECKING:
    from perdure import Perdure, Session


class Trip(Struct, frozen=True):
    """What the acts hand on to each other."""

    store: str
    desk: offline.Desk
    session: str
    first_turn_ends: int
    checkpoint: str


def talk(stage: Stage, session: "Session", said: str, desk: offline.Desk) -> None:
    """A turn with the offline model, shown as it streams."""
    stage.line("user", said)
    streaming = False

    def word(piece: str) -> None:
        nonlocal streaming
        if not streaming:
            stage.speaker("assistant")
        streaming = True
        stage.word(piece)

    def step(name: str) -> None:
        nonlocal streaming
        if streaming:
            stage.end_line()
        streaming = False
        if name.startswith("finished"):
            stage.line("tool", f"{name.removeprefix('finished ')} gave its result")

    offline.take_turn(session, said, desk.run, on_word=word, on_step=step)


def conversation(stage: Stage, store: str, desk: offline.Desk) -> Trip:
    """A session is made and something is said in it."""
    import perdure

    stage.act(1, "A conversation")
    stage.tell("A store is one file, and a session lives in it. The model here is a small one that knows its lines.")
    stage.code('db = perdure.open("trip.db")')
    stage.code('session = db.create("Friday in Vienna", owner="ana", vars={"city": "Vienna", "euros": 120})')
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that a key was made: the tour has its own words for it
        opened = perdure.open(store)
    stage.tell("What it holds is sealed: the key lies beside it, in trip.db.master, and belongs in a safe place.")
    with opened as db:
        session = db.create("Friday in Vienna", owner="ana", tags=["travel"], vars={"city": "Vienna", "euros": 120})
        talk(stage, session, "Find me a train to Vienna.", desk)
        turn = session.turns()[-1]
        stage.claim(
            "the turn is finished, with its tool call and the result", turn.status == "finished" and turn.calls[0].done
        )
        stage.code('checkpoint = session.checkpoint("before booking")')
        checkpoint = session.checkpoint("before booking")
        return Trip(store=store, desk=desk, session=session.id, first_turn_ends=turn.last, checkpoint=checkpoint.id)


def killing(stage: Stage, trip: Trip) -> list[crash.Acknowledged]:
    """Another process takes the next turn and dies in it."""
    stage.act(2, "A crash")
    stage.tell("Now another process takes a turn in the same session. We kill it while its tool is running.")
    acknowledged, ended = crash.kill_midway(stage, trip.store, trip.session, trip.desk.path)
    stage.show(output.styled("kill -9", "bold red"))
    stage.claim(f"the process was killed, it did not end by itself (exit code {ended})", crash.killed(ended))
    stage.claim("the desk had taken the booking, and nobody heard back", len(trip.desk.bookings()) == 1)
    return acknowledged


def recovery(stage: Stage, trip: Trip, acknowledged: list[crash.Acknowledged]) -> None:
    """What is left of the turn, and how it goes on."""
    import perdure

    stage.act(3, "What is left")
    stage.tell("We open the file again and compare it with what the dead process had been promised.")
    with perdure.open(trip.store) as db:
        session = db.session(trip.session)
        on_disk: dict[int, tuple[str, str]] = {
            event.version: (event.kind, event.digest.hex()) for event in session.events()
        }
        kept = [item for item in acknowledged if on_disk.get(item.version) == (item.kind, item.digest)]
        rows = [
            (str(item.version), item.kind, item.digest[:16], "yes" if item in kept else "NO") for item in acknowledged
        ]
        stage.show(output.table(("version", "acknowledged event", "digest", "on disk"), rows), 3.0)
        everything = bool(acknowledged) and len(kept) == len(acknowledged)
        stage.claim(f"all {len(acknowledged)} acknowledged events are there, byte for byte", everything)
        stage.claim("the hash chain is whole", session.verify().ok)
        stage.claim("the turn is still open: nobody finished it", session.info().open_turn == 2)
        stage.code("db.recover()")
        _retry(stage, db, session, trip.desk)


def _retry(stage: Stage, db: "Perdure", session: "Session", desk: offline.Desk) -> None:
    """Close the turn, and run the tool again under the key it was started with."""
    closed = db.recover()
    unfinished = closed[0].unfinished if closed else ()
    names = [(call.name, call.started) for call in unfinished]
    stage.claim("the turn is closed as interrupted, naming the tool to retry", names == [("book_train", True)])
    if not unfinished or unfinished[0].key is None:
        return
    key = unfinished[0].key
    stage.show(output.styled(f"retry {unfinished[0].name} under the key {key[:40]}…", "yellow"))
    with session.turn(model=offline.NAME) as turn:
        call = turn.ask("book_train", {"train": "night"})
        turn.start(call, key=key)
        turn.finish(call, desk.run(offline.Wish("book_train", {"train": "night"}), key))
        turn.answer("Your night train is booked.")
    stage.line("assistant", "Your night train is booked.")
    stage.claim("the desk knew the key: there is one booking, not two", len(desk.bookings()) == 1)


def another_way(stage: Stage, trip: Trip) -> str:
    """A branch from before the booking goes its own way; then the two are compared and merged."""
    import perdure

    stage.act(4, "Another way")
    stage.tell("What if we had taken the morning train? A branch starts at any earlier version.")
    with perdure.open(trip.store) as db:
        session = db.session(trip.session)
        stage.code(f'other = session.branch(at={trip.first_turn_ends}, title="Vienna by day")')
        records = db.inspect()["records"]
        other = session.branch(at=trip.first_turn_ends, title="Vienna by day")
        stage.claim("the branch is one new record in the file", db.inspect()["records"] == records + 1)
        talk(stage, other, "Book the morning train.", trip.desk)
        shared = session.events(upto=trip.first_turn_ends) == other.events(upto=trip.first_turn_ends)
        answers = [each.turns()[-1].messages[-1].content for each in (session, other)]
        stage.claim(
            "both have the first turn, event for event; then each has its own", shared and len(set(answers)) == 2
        )
        stage.code('session.patch_vars(train="night", euros=31, seat="window")')
        session.patch_vars(train="night", euros=31, seat="window")
        stage.code('other.patch_vars(train="morning", euros=66, lunch="packed")')
        other.patch_vars(train="morning", euros=66, lunch="packed")
        stage.code("session.diff(other)")
        stage.show(patch_text(session.diff(other)), 3.0)
        _merge(stage, session, other)
        return other.id


def _merge(stage: Stage, session: "Session", other: "Session") -> None:
    stage.code("report = session.merge(other)")
    report = session.merge(other)
    paths = [conflict_path(item) for item in report.conflicts]
    stage.show(conflict_table(report.conflicts), 3.0)
    stage.claim("what only one side changed is merged: lunch came over", _vars(session).get("lunch") == "packed")
    stage.claim("what both changed waits for a decision", paths == ["vars.euros", "vars.train"])
    stage.code('session.resolve(report.conflict_id, {"vars.euros": "ours", "vars.train": "ours"})')
    session.resolve(report.conflict_id, dict.fromkeys(paths, "ours"))
    stage.show(output.facts((name, str(value)) for name, value in sorted(_vars(session).items())))
    wanted = {"city": "Vienna", "euros": 31, "train": "night", "seat": "window", "lunch": "packed"}
    stage.claim("settled: the night train, with the packed lunch", _vars(session) == wanted)


def _vars(session: "Session") -> dict[str, Any]:
    return session.state().vars.document


def tree(stage: Stage, trip: Trip, other: str) -> None:
    """All the sessions that have grown from the first."""
    import perdure

    stage.act(5, "The tree")
    stage.tell("A checkpoint can be resumed with another model, and a branch can be tried out in a simulation.")
    with perdure.open(trip.store) as db:
        stage.code('session.resume(checkpoint.id, title="Vienna, another model", config={"model": "offline-large"})')
        again = db.session(trip.session).resume(
            trip.checkpoint, title="Vienna, another model", config={"model": "offline-large"}
        )
        stage.claim("it runs with the other model", again.state().config.model == "offline-large")
        stage.code('other.branch(kind="sim", title="Vienna by day, in the rain")')
        db.session(other).branch(kind="sim", title="Vienna by day, in the rain")
        rows = db.find(limit=100).items
        stage.show(draw(rows, None), 4.0)
        shared = [row for row in rows if row.parent is not None]
        stage.claim(
            f"{counted(len(rows), 'session')}, {len(shared)} of them branches", (len(rows), len(shared)) == (4, 3)
        )


def draw(rows: tuple[Row, ...], parent: str | None, onto: Tree | None = None) -> Tree:
    """Sessions under their parents, oldest first."""
    root = onto or Tree(output.styled("trip.db", "bold"), guide_style="dim")
    for row in reversed(rows):
        if row.parent == parent:
            label = output.styled(one_line(row.title), "bold")
            label.append(f"  {counted(row.turns, 'turn')}, version {row.version}", style="default")
            if row.parent is not None:
                label.append(f"  ({row.branch_kind} branch at version {row.branched_at})", style="dim")
            draw(rows, row.session, root.add(label))
    return root
