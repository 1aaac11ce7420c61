"""What is there to install a server with fits the server: its commands, its settings, its locked requirements."""

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

from perdure.edge.http.configuring import configure

ROOT = Path(__file__).parent.parent
DEPLOY = ROOT / "deploy"


def shown(arguments: list[str], folder: Path) -> dict[str, str]:
    """The settings that these arguments of `perdure` lead to."""
    run = subprocess.run(
        [sys.executable, "-m", "perdure", *arguments, "--show-config", "--json"],
        capture_output=True,
        check=True,
        cwd=folder,
    )
    return {row["name"]: row["value"] for row in json.loads(run.stdout)}


def test_the_container_starts_a_server_with_settings_that_exist(tmp_path: Path) -> None:
    text = (DEPLOY / "Containerfile").read_text()
    command = json.loads(re.findall(r"^CMD (\[.*\])$", text, re.MULTILINE)[-1])
    found = shown(command, tmp_path)
    assert (found["store"], found["host"], found["insecure"]) == ("/data/perdure.db", "0.0.0.0", "true")
    assert found["port"] == re.findall(r"^EXPOSE (\d+)$", text, re.MULTILINE)[0]


def test_the_container_copies_only_what_is_there() -> None:
    for line in re.findall(r"^COPY (?!--from)(.*)$", (DEPLOY / "Containerfile").read_text(), re.MULTILINE):
        *sources, _ = line.split()
        assert all((ROOT / source).exists() for source in sources), line


def test_the_service_reads_the_configuration_that_is_shipped(tmp_path: Path) -> None:
    unit = (DEPLOY / "perdure.service").read_text()
    _, *arguments = shlex.split(re.findall(r"^ExecStart=(.*)$", unit, re.MULTILINE)[0])
    place = arguments[arguments.index("--config") + 1]
    arguments[arguments.index(place)] = str(DEPLOY / "perdure.toml")
    assert place == "/etc/perdure/perdure.toml"
    assert shown(arguments, tmp_path)["store"] == "/var/lib/perdure/perdure.db"
    assert "StateDirectory=perdure" in unit


def test_every_setting_of_the_shipped_configuration_is_known_also_those_it_only_suggests(tmp_path: Path) -> None:
    lines = (DEPLOY / "perdure.toml").read_text().splitlines()
    suggested = [line[2:] for line in lines if re.match(r"# [a-z_]+ = ", line)]
    names = {line.split(" = ")[0] for line in suggested}
    kept = [line for line in lines if not line.startswith("#") and line.split(" = ")[0] not in names]
    whole = tmp_path / "perdure.toml"
    whole.write_text("\n".join([*kept, *suggested]))
    assert configure({}, {}, whole).settings.hosts == ("perdure.example.org",)


def test_the_locked_requirements_of_a_server_cover_its_extra() -> None:
    import tomllib

    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    lines = (ROOT / "requirements" / "server.in").read_text().replace("'", '"').splitlines()
    assert "-r root.in" in lines
    backend = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["requires"]
    kept = [*extras["memory"], *extras["memory-minilm"]]
    # the backend, too: nothing unlocked is fetched to build
    for line in [*extras["server"], *extras["postgres"], *kept, *backend]:
        assert line.replace("'", '"') in lines
