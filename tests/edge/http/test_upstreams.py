"""Who answers for models, as an operator writes it down: keys are found where they are said to be, and not shown."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

from perdure.core.errors import Invalid
from perdure.core.talk.routes import OFFLINE
from perdure.edge.cli.app import perdure as command_line
from perdure.edge.http.configuring import configure, shown
from perdure.edge.http.settings import Settings
from perdure.edge.http.talks import talk_of
from perdure.edge.http.upstreams import Bounds, Provider
from perdure.services.desk import DEFAULTS, TurnSettings

PAGE = Path(__file__).parents[3] / "docs" / "CONFIG.md"
SECRET = "sk-very-secret-0123456789"


def provider(**facts: Any) -> Provider:
    return Provider(**{"kind": "openai-chat", "base_url": "http://127.0.0.1:9/v1"} | facts)


def test_without_anything_the_built_in_model_answers() -> None:
    talk = talk_of(Settings(), {})
    assert talk.models == OFFLINE
    assert (talk.prefix, talk.templates) == ("", ())


def test_the_bounds_of_turns_are_those_that_turns_have() -> None:
    assert talk_of(Settings(), {}).settings == DEFAULTS
    assert TurnSettings.__struct_fields__ == Bounds.__struct_fields__
    assert msgspec.structs.asdict(Bounds()) == msgspec.structs.asdict(DEFAULTS)


def test_a_key_is_taken_from_the_environment_from_a_file_or_as_it_stands(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text(f"  {SECRET}\n")
    given = {
        "one": provider(key_env="THEIR_KEY"),
        "two": provider(key_file=str(file)),
        "three": provider(key=SECRET),
        "four": provider(),
    }
    models = talk_of(Settings(upstreams=given), {"THEIR_KEY": f"{SECRET}\n"}).models
    assert [upstream.key for upstream in models.upstreams.values()] == [SECRET, SECRET, SECRET, ""]
    assert SECRET not in repr(given)
    assert SECRET not in repr(Settings(upstreams=given))


@pytest.mark.parametrize(
    ("facts", "told"),
    [
        ({"upstreams": {"x": provider(key_env="NOWHERE")}}, "upstreams.x: the environment has no NOWHERE"),
        (
            {"upstreams": {"x": provider(key_file="nowhere.key")}},
            "upstreams.x: the key_file nowhere.key cannot be read",
        ),
        ({"upstreams": {"x": provider(key_file="/dev/null")}}, "is empty"),
        ({"upstreams": {"x": provider(base_url="ftp://a")}}, "must begin with http"),
        ({"upstreams": {"x/y": provider()}}, "no slash"),
        ({"upstreams": {"x": provider(), "y": provider()}, "default_model": "z/any"}, "no model 'z/any'"),
        ({"upstreams": {"x": provider()}, "aliases": {"a": "b", "b": "a"}}, "in a circle"),
        ({"templates": "nowhere"}, "templates: nowhere cannot be read"),
    ],
)
def test_what_leads_nowhere_is_told_before_the_server_starts(facts: dict[str, Any], told: str) -> None:
    with pytest.raises(Invalid) as caught:
        talk_of(Settings(**facts), {})
    assert told in caught.value.message


def test_two_keys_are_one_too_many(tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text("[upstreams.x]\nkind = 'anthropic'\nkey = 'a'\nkey_env = 'B'\n")
    with pytest.raises(Invalid) as caught:
        configure({}, {}, tmp_path / "c.toml")
    assert "key_env and key both say what the key is" in caught.value.message


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[upstreams.x]\nkind = 'smoke'", "'smoke' is not one of anthropic, offline, openai-chat, openai-responses"),
        ("[upstreams.x]\nkind = 'anthropic'\nurl = 'x'", "there is no `url`; there are kind, base_url"),
        ("[upstreams.x]\nkind = 'anthropic'\nretries = 11", "Expected `int` <= 10"),
        ("[turns]\nmax_tokens = 0", "Expected `int` >= 1"),
        ("[turns]\nround = 1", "there is no `round`; there are max_tokens"),
        ("[fallbacks]\na = 'b'", "fallbacks"),
    ],
)
def test_a_mistake_in_the_file_is_told_with_its_place(tmp_path: Path, text: str, told: str) -> None:
    (tmp_path / "c.toml").write_text(text)
    with pytest.raises(Invalid) as caught:
        configure({}, {}, tmp_path / "c.toml")
    assert told in caught.value.message
    assert "c.toml" in caught.value.message


def test_what_is_shown_has_no_key_and_no_header() -> None:
    given = {"x": {"kind": "anthropic", "key": SECRET, "headers": {"x-team": SECRET}, "base_url": "http://127.0.0.1:1"}}
    environ = {"PERDURE_UPSTREAMS": json.dumps(given), "PERDURE_DEFAULT_MODEL": "x/any"}
    rows = {name: (value, source) for name, value, source in shown(configure({}, environ))}
    value, source = rows["upstreams"]
    assert SECRET not in repr(rows)
    assert json.loads(value)["x"]["base_url"] == "http://127.0.0.1:1"
    assert source == "PERDURE_UPSTREAMS"
    assert rows["default_model"] == ("x/any", "PERDURE_DEFAULT_MODEL")
    told = CliRunner().invoke(command_line, ["serve", "--show-config"], env=environ)
    assert told.exit_code == 0, told.output
    assert SECRET not in told.output


def test_templates_are_read_from_a_folder(tmp_path: Path) -> None:
    template = {"name": "guide", "version": "1.0.0", "text": "You know {{city}} well.", "params": {"city": {}}}
    (tmp_path / "guide.json").write_text(json.dumps(template))
    (tmp_path / "notes.txt").write_text("not one")
    assert [one.name for one in talk_of(Settings(templates=str(tmp_path)), {}).templates] == ["guide"]
    (tmp_path / "worse.json").write_text('{"name": "guide"}')
    with pytest.raises(Invalid, match=r"worse\.json"):
        talk_of(Settings(templates=str(tmp_path)), {})


def test_the_example_on_the_page_configures_models(tmp_path: Path) -> None:
    example = PAGE.read_text().partition("## Upstreams")[2].partition("```toml\n")[2].partition("```")[0]
    key = tmp_path / "openai.key"
    key.write_text(SECRET)
    (tmp_path / "c.toml").write_text(example.replace("/etc/perdure/openai.key", str(key)))
    settings = configure({}, {}, tmp_path / "c.toml").settings
    talk = talk_of(settings, {"ANTHROPIC_API_KEY": SECRET})
    assert list(talk.models.upstreams) == ["anthropic", "openai", "local"]
    assert talk.models.default == "anthropic/claude-sonnet-5-5"
    assert talk.settings is not None
    assert talk.settings.max_tokens == 8192
