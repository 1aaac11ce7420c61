"""What a browser is shown: what this is, that one is signed in and what to do next, that a link was used."""

import re

import pytest

from perdure.core.access.roles import Role
from tests.edge.http.world import Client, Reply, World, world

BROWSER = {"accept": "text/html,application/xhtml+xml,*/*;q=0.8"}


def must_be_harmless(reply: Reply) -> None:
    """A page that runs nothing and loads nothing, whatever stands in it."""
    assert reply.headers["content-type"].startswith("text/html")
    assert reply.headers["content-security-policy"].startswith("default-src 'none'; style-src 'unsafe-inline'")
    assert b"<script" not in reply.body


async def link(here: World, name: str = "ana") -> str:
    """A link with which somebody new may sign in."""
    made = await here.store.directory.add_principal("local", name, by=None, roles=(Role.OWNER,))
    return f"/signin?code={await here.node.entry.signin.code(made.id)}"


async def test_at_the_root_stands_what_this_is_for_people_and_for_programs() -> None:
    async with world() as here:
        stranger = Client(here)
        shown = await stranger.get("/", headers=BROWSER)
        must_be_harmless(shown)
        assert shown.status == 200
        for path in re.findall(r'href="([^"]+)"', shown.body.decode()):
            assert (await stranger.get(path)).status == 200
        told = await stranger.get("/")
        assert (told.status, told.headers["content-type"]) == (200, "application/json")
        assert (await stranger.get(told.json["interface"])).json["openapi"].startswith("3.")


@pytest.mark.parametrize("path", ["//", "/v1//", "/v1/sessions/", "//healthz"])
async def test_an_empty_piece_of_a_path_leads_nowhere_else(path: str) -> None:
    async with world() as here:
        assert (await Client(here).get(path)).status == 404


async def test_whoever_signed_in_is_led_on_to_what_answers_in_this_browser() -> None:
    async with world() as here:
        browser = Client(here)
        shown = await browser.get(await link(here, "<b>ana"), headers=BROWSER)
        must_be_harmless(shown)
        assert (shown.status, b"&lt;b&gt;ana" in shown.body) == (200, True)
        paths = re.findall(r'href="([^"]+)"', shown.body.decode())
        assert "/v1/whoami" in paths
        for path in paths:
            cookie = shown.headers["set-cookie"].partition(";")[0]
            assert (await browser.get(path, headers={**BROWSER, "cookie": cookie})).status == 200


async def test_a_link_that_was_used_is_a_page_in_a_browser_and_a_problem_elsewhere() -> None:
    async with world() as here:
        once, browser = await link(here), Client(here)
        await browser.get(once, headers=BROWSER)
        again = await browser.get(once, headers=BROWSER)
        must_be_harmless(again)
        assert (again.status, b"works once" in again.body, "set-cookie" in again.headers) == (401, True, False)
        assert (await browser.get(once)).json["code"] == "unauthenticated"


async def test_those_who_try_codes_are_slowed_down_and_written_down() -> None:
    async with world(stranger_rate=0.001, stranger_burst=3) as there:
        nobody = Client(there)
        found = [(await nobody.get(f"/signin?code=guess{number}")).status for number in range(6)]
        assert found == [401, 401, 401, 429, 429, 429]
        await there.store.auditing.flush()
        noted = (await there.store.auditing.page("_strangers")).items
        assert {line.entry.what for line in noted} == {"sign_in"}


async def test_a_sign_in_is_written_down() -> None:
    async with world() as there:
        await there.principal("ana")
        principal = await there.store.directory.principal("local", "ana")
        code = await there.node.entry.signin.code(principal.id)
        assert (await Client(there).get(f"/signin?code={code}", headers={"accept": "text/html"})).status == 200
        noted = (await there.store.auditing.page("local")).items
        assert [(line.entry.what, line.entry.actor) for line in noted if line.entry.what == "sign_in"] == [
            ("sign_in", principal.id)
        ]
