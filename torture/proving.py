"""The proof over HTTP: what a server says after it died, held against what its clients remember.

While callers are at work, what they have under way may or may not be there; once they are done, everything they ever
sent must be there, once, and nothing else.
"""

import subprocess
import sys
from typing import Any

from torture.callers import Kept, Ledger
from torture.process import ROOT, environment
from torture.serving import Line, Server

PAGE = 1000


class Prover:
    """Reads everything back."""

    def __init__(self, server: Server, ledger: Ledger) -> None:
        self._server = server
        self._ledger = ledger
        self.proofs = 0
        self.events = 0

    def sessions(self, *, everything: bool = False) -> None:
        """Prove what was written to since the last time, or everything and that there is nothing else."""
        for kept in tuple(self._ledger.sessions):
            if kept.dirty or everything:
                kept.dirty = False
                self._session(kept, exact=everything)

    def _get(self, line: Line, path: str) -> Any:
        found = line.ask("GET", path)
        if found.status != 200:
            self._ledger.wrong(f"GET {path} is answered {found.status}: {found.body!r:.300}")
            return {}
        return found.body

    def _session(self, kept: Kept, exact: bool) -> None:
        wrong, line, at = self._ledger.wrong, Line(self._server, kept.key), f"/v1/sessions/{kept.id}"
        with kept.lock:
            said, number = list(kept.said), kept.number
            points, branches = list(kept.points), list(kept.branches)
        found = self._events(line, at)
        self.proofs += 1
        self.events += len(found)
        if [event["version"] for event in found] != list(range(1, len(found) + 1)):
            wrong(f"{kept.id}: the versions have gaps")
        told = {
            event["version"]: event["data"]["content"].split(" ")[0] for event in found if event["kind"] == "message"
        }
        words = list(told.values())
        wrong_ones = {word for word in words if words.count(word) > 1} if len(words) != len(set(words)) else ()
        for word in wrong_ones:
            wrong(f"DOUBLED: {word} stands {words.count(word)} times in {kept.id}")
        for version, text in said:
            if told.get(version) != text:
                wrong(f"LOST: {text} was acknowledged as version {version} of {kept.id}, where {told.get(version)} is")
        if not kept.shared and said != sorted(said):
            wrong(f"REORDERED: {kept.id} was told {said!r:.300}")
        if exact and set(words) != {text for _, text in said}:
            wrong(f"{kept.id} has what nobody was told of: {sorted(set(words) - {text for _, text in said})[:5]}")
        state = self._get(line, f"{at}/state").get("vars", {}).get("number", -1)
        if state < number or (exact and state != number):
            wrong(f"LOST: vars of {kept.id} say {state}, {number} was acknowledged")
        listed = {item["checkpoint_id"] for item in self._get(line, f"{at}/checkpoints").get("items", ())}
        if not listed >= set(points):
            wrong(f"LOST: checkpoints of {kept.id}: {sorted(set(points) - listed)}")
        for branch in branches:
            self._get(line, f"/v1/sessions/{branch}")
        proof = line.ask("POST", f"{at}/verify")
        if proof.status != 200 or not proof.body["ok"]:
            wrong(f"{kept.id} does not verify: {proof.status} {proof.body}")

    def _events(self, line: Line, at: str) -> list[Any]:
        found: list[Any] = []
        after: int | None = 0
        while after is not None:
            page = self._get(line, f"{at}/events?after={after}&limit={PAGE}")
            found += page.get("items", ())
            after = page.get("after")
        return found

    def blobs(self, some: list[tuple[str, bytes]], key: str) -> None:
        """Prove that blobs hold what was put."""
        line = Line(self._server, key)
        for sha, content in some:
            found = line.ask("GET", f"/v1/blobs/{sha}")
            if found.status != 200 or found.body != content:
                self._ledger.wrong(f"LOST: the blob {sha} is answered {found.status}")

    def audit(self) -> int:
        """Prove the audit log; how many entries it has."""
        found = Line(self._server, self._server.key).ask("POST", "/v1/audit/verify")
        if found.status != 200 or not found.body["ok"]:
            self._ledger.wrong(f"the audit log does not verify: {found.status} {found.body!r:.400}")
            return 0
        return int(found.body["events"])

    def file(self) -> None:
        """Prove the file itself, with no server on it, by the commands that users have."""
        for command in (("sessions", "verify"), ("audit", "verify")):
            done = subprocess.run(
                [sys.executable, "-m", "perdure", *command, "--store", str(self._server.store), "--json"],
                env=environment(),
                cwd=ROOT,
                capture_output=True,
                text=True,
                timeout=300,
                check=False,
            )
            if done.returncode:
                self._ledger.wrong(f"perdure {' '.join(command)} fails: {done.stdout[-700:]} {done.stderr[-700:]}")
