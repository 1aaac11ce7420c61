"""`perdure prices`: what counts is what ships, overlaid by a document of the user's own, which is whole or refused."""

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from click.testing import CliRunner, Result

from perdure.compose import pricing
from perdure.core.errors import BadPrices
from perdure.edge.cli import exits
from perdure.edge.cli.app import perdure as command_line

RATES = {"input": 1_000_000, "output": 2_000_000, "cache_read": 100_000, "cache_write": 1_250_000}
OURS = {"provider": "acme", "models": ["rocket-1", "rocket-1-*"], "rates": RATES, "window": 9000, "max_output": 900}


def document(*prices: dict[str, Any]) -> str:
    return json.dumps({"as_of": "2026-11-01", "prices": list(prices)})


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where this user's own prices are."""
    monkeypatch.setenv("PERDURE_PRICES", str(tmp_path / "deep" / "own.json"))
    return tmp_path / "deep" / "own.json"


@pytest.fixture
def given(tmp_path: Path) -> Path:
    """A document to bring."""
    path = tmp_path / "given.json"
    path.write_text(document(OURS))
    return path


def run(*words: str) -> Result:
    return CliRunner().invoke(command_line, ["prices", *words])


def asked(*words: str) -> Any:
    result = run(*words, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_what_ships_is_shown_and_every_price_of_it_can_be_asked_for() -> None:
    found = asked("show")
    assert found["file"] is None
    assert {(item["provider"], item["model"]) for item in found["prices"]} == set(pricing.shipped().table)
    assert not any(item["own"] for item in found["prices"])
    assert "dollars per million tokens" in run("show").stdout


def test_a_model_is_found_by_its_name_alone_or_with_its_provider(given: Path) -> None:
    run("update", str(given))
    for name in ("rocket-1", "acme/rocket-1", "rocket-1-turbo", "acme/rocket-1-turbo"):
        (found,) = asked("show", name)["prices"]
        assert (found["provider"], found["rates"]["input"], found["own"]) == ("acme", 1_000_000, True)
    unknown = run("show", "rocket-7")
    assert unknown.exit_code == exits.NOT_FOUND
    assert "near it are" in unknown.stderr
    assert "rocket-1" in unknown.stderr


def test_an_update_is_laid_over_what_ships(given: Path, place: Path) -> None:
    done = asked("update", str(given))
    assert (done["file"], done["written"]) == (str(place), True)
    assert [(item["change"], item["model"]) for item in done["changes"]] == [("new", "rocket-1"), ("new", "rocket-1-*")]
    assert pricing.loaded().of("acme", "rocket-1").window == 9000
    assert pricing.loaded().table.keys() >= pricing.shipped().table.keys()
    assert [path.name for path in place.parent.iterdir()] == [place.name]


def test_an_update_replaces_the_one_before_and_tells_what_changed(given: Path) -> None:
    run("update", str(given))
    dearer = {**OURS, "models": ["rocket-1"], "rates": RATES | {"output": 3_500_000}}
    given.write_text(document(dearer))
    told = run("update", str(given)).stdout
    assert "changed acme/rocket-1: 1.00 in, 2.00 out, window 9,000 → 1.00 in, 3.50 out, window 9,000" in told
    assert "gone    acme/rocket-1-*" in told
    assert ("acme", "rocket-1-*") not in pricing.loaded().table
    assert asked("update", str(given))["changes"] == []


def test_a_dry_run_shows_the_differences_and_writes_nothing(given: Path, place: Path) -> None:
    told = run("update", str(given), "--dry-run")
    assert (told.exit_code, "would be written to" in told.stdout) == (0, True)
    assert "new     acme/rocket-1" in told.stdout
    assert not place.exists()


@pytest.mark.parametrize(
    "wrong", ["", "not json", "{}", document({**OURS, "window": 1.5}), document(OURS, OURS), document({**OURS, "x": 1})]
)
def test_a_bad_document_is_refused_and_what_was_there_stays(wrong: str, given: Path, place: Path) -> None:
    run("update", str(given))
    before = place.read_bytes()
    given.write_text(wrong)
    refused = run("update", str(given), "--json")
    assert refused.exit_code == exits.CALLER
    assert json.loads(refused.stdout)["error"]["code"] == "bad_prices"
    assert place.read_bytes() == before


def test_a_bad_file_of_ones_own_is_named_and_can_be_replaced(given: Path, place: Path) -> None:
    place.parent.mkdir()
    place.write_text("spoiled")
    with pytest.raises(BadPrices, match=r"own\.json"):
        pricing.loaded()
    assert run("show").exit_code == exits.CALLER
    assert run("update", str(given)).exit_code == 0
    assert pricing.loaded().of("acme", "rocket-1").window == 9000


def test_a_file_that_is_not_there_is_told() -> None:
    assert run("update", "nowhere.json").exit_code == exits.WORLD


def test_without_a_variable_the_file_is_in_the_users_configuration(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("PERDURE_PRICES")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setattr("sys.platform", "linux")
    assert pricing.own_file() == tmp_path / "perdure" / "prices.json"


# ── from an address ──


class Served(BaseHTTPRequestHandler):
    """A few answers, by path."""

    def do_GET(self) -> None:
        if self.path == "/prices.json":
            body = document(OURS).encode()
            self.send_response(200)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
        elif self.path == "/away":
            self.send_response(302)
            self.send_header("location", "http://192.0.2.1/prices.json")
            self.end_headers()
        elif self.path == "/endless":
            self.send_response(200)
            self.end_headers()
            try:
                for _ in range(64):
                    self.wfile.write(bytes(1 << 20))
            except OSError:  # the reader has had enough
                return
        else:
            self.send_error(404)

    def log_message(self, *_: Any) -> None:
        """Keep quiet."""


@pytest.fixture
def address() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Served)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_prices_are_fetched_from_an_address(address: str) -> None:
    assert run("update", f"{address}/prices.json").exit_code == 0
    assert pricing.loaded().of("acme", "rocket-1").window == 9000


def test_what_cannot_be_had_is_told(address: str, place: Path) -> None:
    missing = run("update", f"{address}/missing")
    assert missing.exit_code == exits.WORLD
    assert "cannot be had" in missing.stderr
    assert not place.exists()


@pytest.mark.parametrize("path", ["/away", "/endless"])
def test_an_answer_that_leads_away_or_does_not_end_is_refused(path: str, address: str, place: Path) -> None:
    assert run("update", address + path).exit_code == exits.CALLER
    assert not place.exists()


@pytest.mark.parametrize(
    "wrong",
    ["http://prices.example.org/p.json", "ftp://127.0.0.1/p.json", "file:///etc/passwd", "https://", "http://[/x"],
)
def test_an_address_that_somebody_could_answer_for_is_refused(wrong: str) -> None:
    refused = run("update", wrong)
    assert refused.exit_code == exits.CALLER
    assert "https://" in refused.stderr
