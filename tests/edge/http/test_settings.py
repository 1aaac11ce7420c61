"""Settings come from flag, environment, file and default, in that order, and say where a mistake was made."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from perdure.core.errors import Invalid, Refused
from perdure.edge.cli.app import perdure as command_line
from perdure.edge.http import configuring
from perdure.edge.http.configuring import configure, masked, shown
from perdure.edge.http.settings import Issuer, Settings

PAGE = Path(__file__).parents[3] / "docs" / "CONFIG.md"
ALONE: dict[str, str | None] = {name: None for name in os.environ if name.startswith("PERDURE_")}
TLS = {"tls_cert": "server.pem", "tls_key": "server.key"}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def written(folder: Path, text: str, name: str = "perdure.toml") -> str:
    (folder / name).write_text(text)
    return str(folder / name)


def test_a_flag_comes_before_the_environment_that_before_the_file_and_that_before_the_default(folder: Path) -> None:
    written(folder, "port = 3\nhost = '10.0.0.3'\nburst = 33")
    environ = {"PERDURE_PORT": "2", "PERDURE_HOST": "10.0.0.2"}
    found = configure({"port": "1", "host": None}, environ)
    assert (found.settings.port, found.sources["port"]) == (1, "--port")
    assert (found.settings.host, found.sources["host"]) == ("10.0.0.2", "PERDURE_HOST")
    assert (found.settings.burst, found.sources["burst"]) == (33, "perdure.toml: burst")
    assert (found.settings.anomaly, found.sources["anomaly"]) == ("flag", "default")


def test_without_anything_it_is_the_defaults(folder: Path) -> None:
    found = configure({}, {})
    assert found.settings == Settings()
    assert set(found.sources.values()) == {"default"}
    assert set(found.sources) == set(Settings.__struct_fields__)


def test_the_file_is_the_one_named_by_flag_else_by_environment_else_the_one_in_the_folder(folder: Path) -> None:
    written(folder, "port = 1")
    second, third = written(folder, "port = 2", "second.toml"), written(folder, "port = 3", "third.toml")
    assert configure({}, {}).settings.port == 1
    assert configure({}, {"PERDURE_CONFIG": second}).settings.port == 2
    assert configure({}, {"PERDURE_CONFIG": second}, third).settings.port == 3
    with pytest.raises(Invalid, match="no configuration file nowhere"):
        configure({}, {}, "nowhere.toml")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("prot = 1", "perdure.toml: 'prot' is no setting; did you mean port?"),
        ("zebra = 1", "perdure.toml: 'zebra' is no setting; there are store, seal, "),
        ("zebra = 1", "metrics, otel; docs/CONFIG.md tells of each"),
        ("embedder = 'none'", "perdure.toml: 'embedder' is no setting by itself; it belongs into [memory]"),
        ("jwks = 'x'", "perdure.toml: 'jwks' is no setting by itself; it belongs into [[issuers]]"),
        ("base_url = 'x'", "perdure.toml: 'base_url' is no setting by itself; it belongs into [upstreams.NAME]"),
        ("headers_env = 'x'", "perdure.toml: 'headers_env' is no setting by itself; it belongs into [tools.NAME]"),
        ("max_rounds = 1", "perdure.toml: 'max_rounds' is no setting by itself; it belongs into [turns]"),
        ("[server]\nport = 1", "perdure.toml: 'server' is no setting; "),
        ("[memory]\nembeder = 'none'", "perdure.toml: memory: there is no `embeder`; there are embedder, key_env, "),
        ("port = 'one'", "perdure.toml: port: Expected `int`, got `str`"),
        ("port = 65536", "perdure.toml: port: Expected `int` <= 65535"),
        ("token_lifetime = 901", "perdure.toml: token_lifetime: Expected `int` <= 900"),
        ("anomaly = 'panic'", "perdure.toml: anomaly: 'panic' is not one of block, flag, off"),
        ("hosts = 'a.org'", "perdure.toml: hosts: Expected `array`, got `str`"),
        ("[[issuers]]\nissuer = 'x'\naudience = 'y'\nkeys = 'z'", "there is no `keys`; there are issuer, audience"),
        ("[[issuers]]\nissuer = 'x'\naudience = 'y'\nkeys = 'z'", "roles - at `issuers[0]`"),
        ("[[issuers]]\nissuer = 'x'\naudience = 'y'", "`jwks` is missing; give it - at `issuers[0]`"),
        ("[[issuers]]\nissuer = 'x'\naudience = 'y'\njwks = 'http://a.org'", "https:// address"),
        ("[[issuers]]\nissuer='x'\naudience='y'\njwks='z'\nroles={a='god'}", "'god' is not one of admin, agent"),
        ("[[issuers]]\nissuer='x'\naudience='y'\njwks='z'\ntenant_claim='org'", "every tenant it may name"),
        ("[timeouts]\nidel = 1800", "perdure.toml: timeouts: there is no time-out 'idel'; there are idle, "),
        ("[timeouts]\nidle = -1", "perdure.toml: timeouts: "),
        ("port =", "perdure.toml is not TOML"),
        ("\udcff", "perdure.toml is not TOML"),
        ("#" * (1 << 20) + "#", "is larger than"),
    ],
)
def test_a_mistake_in_the_file_is_told_with_its_place(folder: Path, text: str, told: str) -> None:
    (folder / "perdure.toml").write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(Invalid) as caught:
        configure({}, {})
    assert told in caught.value.message


@pytest.mark.parametrize(
    ("environ", "told"),
    [
        ({"PERDURE_PORT": "one"}, "PERDURE_PORT: port is a number"),
        ({"PERDURE_PORT": "-1"}, "PERDURE_PORT: Expected `int` >= 0"),
        ({"PERDURE_RATE": "nan"}, "PERDURE_RATE: Expected `float`"),
        ({"PERDURE_OTEL": "maybe"}, "PERDURE_OTEL: otel is yes or no"),
        ({"PERDURE_ISSUERS": "x"}, "PERDURE_ISSUERS: issuers is JSON"),
        ({"PERDURE_ANOMALY": "maybe"}, "PERDURE_ANOMALY: 'maybe' is not one of block, flag, off"),
        ({"PERDURE_TIMEOUTS": '{"idel":1800}'}, "PERDURE_TIMEOUTS: there is no time-out 'idel'; there are idle, "),
        ({"PERDURE_PORTS": "1"}, "PERDURE_PORTS in the environment is no setting; did you mean PERDURE_PORT?"),
        ({"PERDURE_MUTUAL_TLS": "yes"}, "(mutual_tls is from PERDURE_MUTUAL_TLS)"),
        ({"PERDURE_ORIGINS": "a.org"}, "(origins is from PERDURE_ORIGINS)"),
        ({"PERDURE_TLS_CERT": "a.pem"}, "(tls_cert is from PERDURE_TLS_CERT)"),
    ],
)
def test_a_mistake_in_the_environment_is_told_with_its_variable(
    folder: Path, environ: dict[str, str], told: str
) -> None:
    with pytest.raises(Invalid) as caught:
        configure({}, environ)
    assert told in caught.value.message


def test_text_becomes_what_the_setting_is(folder: Path) -> None:
    environ = {
        "PERDURE_HOSTS": "a.org, *.b.org",
        "PERDURE_OTEL": "On",
        "PERDURE_SEAL": "no",
        "PERDURE_RATE": "12.5",
        "PERDURE_TIMEOUTS": '{"idle": 60}',
        "PERDURE_ISSUERS": '[{"issuer": "x", "audience": "y", "jwks": "keys.json", "roles": {"eng": "owner"}}]',
        "PERDURE_ORIGINS": "",
    }
    found = configure({"origins": ("https://a.org", "https://b.org:8443")}, environ).settings
    assert found.hosts == ("a.org", "*.b.org")
    assert (found.otel, found.seal, found.rate, found.timeouts) == (True, False, 12.5, {"idle": 60})
    assert found.issuers == (Issuer(issuer="x", audience="y", jwks="keys.json", roles={"eng": "owner"}),)
    assert found.origins == ("https://a.org", "https://b.org:8443")


def test_master_keys_in_the_environment_come_before_a_file_that_environment_or_file_name(folder: Path) -> None:
    written(folder, "key = 'other.master'")
    environ = {"PERDURE_MASTER_KEY": "secret", "PERDURE_KEY_FILE": "some.master"}
    found = configure({}, environ)
    assert (found.settings.key, found.sources["key"]) == (None, "PERDURE_MASTER_KEY")
    assert "secret" not in repr(shown(found))
    assert configure({"key": "mine.master"}, environ).settings.key == "mine.master"
    assert configure({}, {"PERDURE_KEY_FILE": "some.master"}).settings.key == "some.master"


def test_variables_of_others_are_none_of_our_business(folder: Path) -> None:
    assert configure({}, {"PERDURE_KEY": "x", "PERDURE_URL": "y", "PERDURE_QUITE_ELSE": "1"}).settings == Settings()


def test_what_is_shown_has_every_source_and_no_password(folder: Path) -> None:
    found = configure({}, {"PERDURE_STORE": "postgresql://ann:s3cret@db/x", "PERDURE_VAULT": "host=db password=hush"})
    rows = {name: (value, source) for name, value, source in shown(found)}
    assert rows["store"] == ("postgresql://ann:…@db/x", "PERDURE_STORE")
    assert rows["vault"][0] == "host=db password=…"
    assert rows["port"] == ("7464", "default")
    assert list(rows) == list(Settings.__struct_fields__)


@given(st.text(st.characters(codec="ascii", exclude_characters=" \t\n\r\x0b\x0c\x1c\x1d\x1e\x1f"), min_size=6))
def test_no_password_survives_masking(password: str) -> None:
    assert f":{password}@" not in masked(f"postgresql://ann:{password}@db.example.org/perdure")


# ── what settings say about each other ──


@pytest.mark.parametrize(
    "wrong",
    [
        {"tls_key": "x"},
        {"mutual_tls": True, **TLS},
        {"tls_client_ca": "ca.pem"},
        {"sign_in_idle": 100, "sign_in_absolute": 99},
        {"origins": ("example.org",)},
        {"origins": ("https://example.org/path",)},
        {"origins": ("https://ann@example.org",)},
        {"hosts": ("https://example.org",)},
        {"hosts": ("exa*ple.org",)},
        {"hosts": ("",)},
    ],
)
def test_settings_that_do_not_go_together_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(Invalid):
        Settings(**wrong)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "localhost"])
def test_loopback_is_safe_as_it_is(host: str) -> None:
    settings = Settings(host=host)
    assert settings.on_loopback
    settings.must_be_safe()


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.org", "localhost.example.org"])
def test_elsewhere_the_server_starts_only_with_tls_or_when_told(host: str) -> None:
    with pytest.raises(Refused, match="--tls-cert"):
        Settings(host=host).must_be_safe()
    Settings(host=host, insecure=True).must_be_safe()
    Settings(host=host, **TLS).must_be_safe()


@pytest.mark.parametrize(
    ("settings", "host", "taken"),
    [
        ({}, "127.0.0.1:7464", True),
        ({}, "localhost:7464", True),
        ({}, "LOCALHOST.", True),
        ({}, "[::1]:7464", True),
        ({}, "evil.example.org", False),
        ({}, "192.0.2.7", False),
        ({}, "", False),
        ({}, "localhost:7464:1", False),
        ({}, "localhost@evil.org", False),
        ({}, "[::1", False),
        ({"hosts": ("a.org",)}, "A.org:443", True),
        ({"hosts": ("a.org",)}, "b.a.org", False),
        ({"hosts": ("*.a.org",)}, "b.a.org", True),
        ({"hosts": ("*.a.org",)}, "a.org", False),
        ({"hosts": ("*.a.org",)}, "evila.org", False),
        ({"hosts": ("*",)}, "whatever.org", True),
        ({"host": "0.0.0.0"}, "192.0.2.7:7464", True),
        ({"host": "0.0.0.0"}, "localhost", False),
        ({"host": "0.0.0.0"}, "evil.example.org", False),
        ({"host": "srv.example.org"}, "srv.example.org", True),
    ],
)
def test_only_hosts_that_name_the_server_are_taken(settings: dict[str, Any], host: str, taken: bool) -> None:
    assert Settings(**settings).takes_host(host) is taken


@pytest.mark.parametrize(
    ("settings", "origin", "host", "taken"),
    [
        ({}, "http://127.0.0.1:7464", "127.0.0.1:7464", True),
        ({}, "http://127.0.0.1:9999", "127.0.0.1:7464", False),
        ({}, "http://evil.org", "127.0.0.1:7464", False),
        ({}, "http://evil.org", "evil.org", False),
        ({}, "null", "127.0.0.1:7464", False),
        ({}, "file://", "127.0.0.1:7464", False),
        ({}, "http://127.0.0.1:7464/x", "127.0.0.1:7464", False),
        ({}, "http://[::1", "[::1]", False),
        ({"origins": ("https://app.org",)}, "https://app.org", "127.0.0.1:7464", True),
        ({"origins": ("https://app.org",)}, "http://app.org", "127.0.0.1:7464", False),
        (TLS, "http://127.0.0.1:7464", "127.0.0.1:7464", False),
        (TLS, "https://127.0.0.1:7464", "127.0.0.1:7464", True),
    ],
)
def test_only_its_own_pages_and_those_named_may_write(
    settings: dict[str, Any], origin: str, host: str, taken: bool
) -> None:
    assert Settings(**settings).takes_origin(origin, host) is taken


@given(st.text(), st.text())
def test_no_header_upsets_the_checks(origin: str, host: str) -> None:
    settings = Settings(hosts=("a.org",))
    settings.takes_origin(origin, host)
    assert not settings.takes_host(host) or host.strip()


# ── flags and the page ──


def test_every_setting_has_its_flag_and_what_it_says_is_taken(folder: Path) -> None:
    words = "--port 0 --hosts a.org --hosts b.org --no-metrics --anomaly block --key-file k --rate 2".split()
    result = CliRunner().invoke(command_line, ["serve", "--show-config", "--json", *words], env=ALONE)
    assert result.exit_code == 0, result.output
    rows = {row["name"]: (row["value"], row["source"]) for row in json.loads(result.stdout)}
    assert (rows["port"], rows["hosts"]) == (("0", "--port"), ('["a.org","b.org"]', "--hosts"))
    assert (rows["metrics"], rows["anomaly"]) == (("false", "--metrics"), ("block", "--anomaly"))
    assert (rows["key"], rows["rate"]) == (("k", "--key-file"), ("2.0", "--rate"))
    told = CliRunner().invoke(command_line, ["serve", "--help"]).output
    assert [item.flag for item in configuring.settings() if not item.by_file and item.flag not in told] == []
    refused = CliRunner().invoke(command_line, ["serve", "--show-config", "--anomaly", "panic"], env=ALONE)
    assert (refused.exit_code, "--anomaly: 'panic' is not one of block, flag, off" in refused.stderr) == (2, True)


def test_the_page_lists_every_setting_as_it_is() -> None:
    page = PAGE.read_text()
    assert configuring.table() in page
    assert configuring.issuers_table() in page
    assert configuring.upstreams_table() in page
    assert configuring.turns_table() in page
    assert configuring.tools_table() in page
    assert configuring.memory_table() in page


def test_the_example_on_the_page_configures_a_server(folder: Path) -> None:
    example = PAGE.read_text().partition("```toml\n")[2].partition("```")[0]
    found = configure({}, {}, written(folder, example, "example.toml")).settings
    found.must_be_safe()
    assert found.issuers[0].roles == {"engineers": "owner", "reviewers": "viewer"}
