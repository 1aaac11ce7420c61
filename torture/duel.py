"""Two processes on one session at once, neither naming a version: none waits in vain and nothing is lost.

`python -m torture.duel STORE SESSION NAME COUNT` is one of the two; `fight` starts both and looks at what they left.
"""

import subprocess
import sys
from pathlib import Path
from typing import Any

import perdure
from perdure import errors
from torture.content import Shape, compose
from torture.process import ROOT, environment
from torture.sealing import seal_of

FORM = Shape(1, 40, False)


def strike(store: str, session: str, name: str, count: int) -> None:
    """Append `count` turns without a version; then one with a version that is surely stale."""
    with perdure.open(store, seal=seal_of(store)) as db:
        mine = db.session(session)
        print("ready", flush=True)
        sys.stdin.readline()
        for number in range(count):
            mine.append(compose(f"{name}.{number}", FORM))
        try:
            mine.append(compose(f"{name}.stale", FORM), expected=1)
        except errors.VersionConflict as conflict:
            print(conflict.fields["found"], flush=True)


def fight(store: Path, count: int) -> list[str]:
    """Two writers, `count` turns each, on a fresh session; what was wrong, if anything."""
    with perdure.open(store, seal=seal_of(store)) as db:
        session = db.create(title="create.duel").id
    command = [sys.executable, "-m", "torture.duel", str(store), session]
    pair = [
        subprocess.Popen(
            [*command, name, str(count)],
            cwd=ROOT,
            env=environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for name in ("left", "right")
    ]
    for one in pair:
        assert one.stdout is not None
        one.stdout.readline()
    ends = []
    for one in pair:
        assert one.stdin is not None
        one.stdin.write("\n")
        one.stdin.flush()
    for one in pair:
        try:
            ends.append(one.communicate(timeout=120))
        except subprocess.TimeoutExpired:
            one.kill()
            ends.append(one.communicate())
    problems = [
        f"a duellist ended with {one.returncode}: {said[1][-1500:]}"
        for one, said in zip(pair, ends, strict=True)
        if one.returncode
    ]
    with perdure.open(store, seal=seal_of(store)) as db:
        return problems + judged(db.session(session), count, [said[0].strip() for said in ends])


def judged(session: Any, count: int, found: list[str]) -> list[str]:
    """What is wrong with the session two writers left behind."""
    problems = []
    events = session.events()
    if [event.version for event in events] != list(range(1, len(events) + 1)):
        problems.append("versions have gaps")
    started = [event.data.model for event in events if event.kind == "turn_started"]
    problems += [
        f"the turns of {name} are not all there, once and in order"
        for name in ("left", "right")
        if [each for each in started if each.startswith(name)] != [f"{name}.{number}" for number in range(count)]
    ]
    if len(started) != 2 * count:
        problems.append(f"{len(started)} turns of {2 * count}")
    if not session.verify().ok:
        problems.append("the session does not verify")
    return problems + [
        f"a stale append was told {version or 'nothing'} instead of the present version"
        for version in found
        if not version.isdigit() or not 1 < int(version) <= len(events)
    ]


if __name__ == "__main__":
    strike(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]))
