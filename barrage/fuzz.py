"""All that schemathesis can think of, over the server's own description, with every check it has and one of ours."""

import os
import subprocess
import sys
from pathlib import Path

from barrage.operations import UNTOUCHED, Pool
from barrage.server import ROOT, Server

ENDLESS = frozenset({"watch_changes"})
"""Operations whose answer never ends."""
LOCKING = UNTOUCHED | {"set_policy", "change_principal"}
"""Operations by which the one who asks can be shut out: they come last, by themselves."""
_CONFIG = """
[parameters]
"path.session_id" = {{ dictionary = "sessions", probability = 0.7 }}
"path.checkpoint_id" = {{ dictionary = "checkpoints", probability = 0.7 }}
"path.sha256" = {{ dictionary = "blobs", probability = 0.7 }}

[dictionaries.sessions]
values = {sessions}

[dictionaries.checkpoints]
values = {checkpoints}

[dictionaries.blobs]
values = {blobs}

# A request can be of the right shape and still be refused for what it says; `shape` looks at the others.
[checks.positive_data_acceptance]
expected-statuses = ["2xx", "3xx", "401", "402", "403", "404", "405", "409", "410", "422", "426", "429", "503", "507"]

[checks.negative_data_rejection]
expected-statuses = ["400", "401", "403", "404", "405", "406", "409", "410", "413", "415", "421", "422", "426", "429"]

# What stands in for a provider's endpoint takes any fields, and tells what is wrong with them as the provider does.
[[operations]]
include-tag = "gateway"
checks.positive_data_acceptance.expected-statuses = ["2xx", "400", "401", "402", "403", "404", "409", "429", "503"]
"""


def schemathesis(
    server: Server, pool: Pool, seed: int, examples: int, seconds: int, phases: str
) -> tuple[list[str], list[str]]:
    """What it found, if anything, and how its reports end: first all that leaves the door open, then the rest."""
    facts = {name: str(getattr(pool, name)).replace("'", '"') for name in ("sessions", "checkpoints", "blobs")}
    (server.folder / "schemathesis.toml").write_text(_CONFIG.format(**facts), "utf-8")
    problems: list[str] = []
    closings: list[str] = []
    for sign, names in (("exclude", LOCKING | ENDLESS), ("include", LOCKING)):
        chosen = [word for name in sorted(names) for word in (f"--{sign}-operation-id", name)]
        found, closing = _run(server, seed, examples, seconds, phases, chosen)
        problems += found
        closings.append(closing)
    return problems, closings


def _run(
    server: Server, seed: int, examples: int, seconds: int, phases: str, chosen: list[str]
) -> tuple[list[str], str]:
    program = Path(sys.executable).with_name("schemathesis")
    wanted = {
        "--header": f"Authorization: Bearer {server.key}",
        "--checks": "all",
        "--phases": phases,
        "--max-examples": str(examples),
        "--seed": str(seed),
        "--request-timeout": "20",
    }
    command = [str(program) if program.exists() else "schemathesis", "--no-color", "run", f"{server.url}/openapi.json"]
    command += [word for pair in wanted.items() for word in pair] + ["--continue-on-failure", *chosen]
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")]))
    environment = {**os.environ, "SCHEMATHESIS_HOOKS": "barrage.shape", "NO_COLOR": "1", "PYTHONPATH": path}
    try:
        done = subprocess.run(
            command, cwd=server.folder, env=environment, capture_output=True, timeout=seconds, check=False
        )
    except subprocess.TimeoutExpired:
        return [f"schemathesis was still running after {seconds} s"], ""
    said = done.stdout.decode("utf-8", "replace")
    closing = said[said.rfind("Test cases:") :] if "Test cases:" in said else said[-2000:]
    if done.returncode == 0:
        return [], closing.strip()
    whole = said[said.find("= FAILURES") :] if "= FAILURES" in said else said + done.stderr.decode("utf-8", "replace")
    failures = whole.split("= WARNINGS =", 1)[0]
    return [f"schemathesis ended with {done.returncode}:\n{failures}"], closing.strip()
