"""Personal data and credentials are found in a seeded corpus: recall and precision are measured kind by kind, and told.

The corpus plants things of every kind, spelled the ways people and programs spell them, into sentences, JSON and code,
beside things that only look alike: dates, order numbers, versions, digests, ids, placeholders.
"""

import base64
import random
import string
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.core.scrub import KINDS, find, holds, mask, masked
from perdure.core.session.values import Ref, same
from tests.core.session.plain_values import values

SEED = 20_260_131
EACH = 150
RECALL, PRECISION = 0.98, 0.98
Chance = random.Random


def letters(chance: Chance, count: int, among: str = string.ascii_letters + string.digits) -> str:
    return "".join(chance.choice(among) for _ in range(count))


def digits(chance: Chance, count: int) -> str:
    return letters(chance, count, string.digits)


# ── what is planted ───────────────────────────────────────────────────────────────────────────────


def an_email(chance: Chance) -> str:
    local = chance.choice(["ana", "j.doe", "maria_lopez", "x+tag", "o'brien", "müller", "sales-eu", "a1"])
    host = chance.choice(["example.org", "mail.example.co.uk", "xn--mnchen-3ya.de", "sub.domain.museum", "gmail.com"])
    return f"{local}{chance.randint(1, 999)}@{host}"


def a_phone(chance: Chance) -> str:
    exchange = f"{chance.randint(2, 9)}{digits(chance, 2)}"
    return chance.choice(
        [
            f"+49 30 {digits(chance, 6)}",
            f"+44 20 {digits(chance, 4)} {digits(chance, 4)}",
            f"+1-{chance.randint(201, 989)}-{exchange}-{digits(chance, 4)}",
            f"+33 (0) {chance.randint(1, 9)} {digits(chance, 2)} {digits(chance, 2)} {digits(chance, 2)} 34",
            f"+4915{digits(chance, 9)}",
            f"({chance.randint(201, 989)}) {exchange}-{digits(chance, 4)}",
            f"{chance.randint(201, 989)}-{exchange}-{digits(chance, 4)}",
            f"{chance.randint(201, 989)}.{exchange}.{digits(chance, 4)}",
            f"030/{digits(chance, 7)}",
            f"020 7946 0{digits(chance, 3)}",
        ]
    )


def with_luhn(number: str) -> str:
    doubled = sum(sum(divmod(2 * int(digit), 10)) for digit in number[::-2])
    return number + str(-(doubled + sum(int(digit) for digit in number[-2::-2])) % 10)


def a_card(chance: Chance) -> str:
    prefix, length = chance.choice([("4", 16), ("51", 16), ("2230", 16), ("37", 15), ("6011", 16), ("4", 13)])
    number = with_luhn(prefix + digits(chance, length - len(prefix) - 1))
    sign = chance.choice(["", " ", "-"])
    return sign.join(number[place : place + 4] for place in range(0, length, 4))


def an_iban(chance: Chance) -> str:
    country, length, lettered = chance.choice(
        [("DE", 22, 0), ("GB", 22, 4), ("FR", 27, 0), ("NL", 18, 4), ("NO", 15, 0)]
    )
    body = letters(chance, lettered, string.ascii_uppercase) + digits(chance, length - 4 - lettered)
    number = int("".join(str(int(character, 36)) for character in f"{body}{country}00"))
    iban = f"{country}{98 - number % 97:02d}{body}"
    return iban if chance.random() < 0.5 else " ".join(iban[place : place + 4] for place in range(0, length, 4))


def a_ssn(chance: Chance) -> str:
    area = chance.choice([number for number in range(1, 900) if number != 666])
    return f"{area:03d}-{chance.randint(1, 99):02d}-{chance.randint(1, 9999):04d}"


def an_ip(chance: Chance) -> str:
    if chance.random() < 0.6:
        return ".".join(str(chance.randint(1, 254) if place else chance.randint(1, 126)) for place in range(4))
    groups = [f"{chance.randint(1, 65535):x}" for _ in range(8)]
    return chance.choice([":".join(groups), f"2001:db8::{groups[0]}", f"fe80::{groups[1]}:{groups[2]}:{groups[3]}"])


def a_jwt(chance: Chance) -> str:
    def part(document: str) -> str:
        return base64.urlsafe_b64encode(document.encode()).decode().rstrip("=")

    claims = f'{{"sub":"{letters(chance, 12)}","iat":{chance.randint(10**9, 2 * 10**9)}}}'
    header = '{"alg":"HS256","typ":"JWT"}'
    return f"{part(header)}.{part(claims)}.{letters(chance, 43)}"


def an_api_key(chance: Chance) -> str:
    return chance.choice(
        [
            f"sk-ant-api03-{letters(chance, 40)}",
            f"sk-proj-{letters(chance, 48)}",
            f"sk-{letters(chance, 48)}",
            f"ghp_{letters(chance, 36)}",
            f"github_pat_{letters(chance, 40)}",
            f"glpat-{letters(chance, 20)}",
            f"xoxb-{digits(chance, 12)}-{letters(chance, 24)}",
            f"sk_live_{letters(chance, 24)}",
            f"AIza{letters(chance, 35)}",
            f"SG.{letters(chance, 22)}.{letters(chance, 43)}",
            f"npm_{letters(chance, 36)}",
            f"hf_{letters(chance, 34)}",
            f"{digits(chance, 9)}:AA{letters(chance, 33)}",
        ]
    )


def an_aws_key(chance: Chance) -> str:
    return chance.choice(["AKIA", "ASIA"]) + letters(chance, 16, string.ascii_uppercase + "234567")


def a_private_key(chance: Chance) -> str:
    kind = chance.choice(["", "RSA ", "EC ", "OPENSSH "])
    body = "\n".join(letters(chance, 64) for _ in range(3))
    return f"-----BEGIN {kind}PRIVATE KEY-----\n{body}\n-----END {kind}PRIVATE KEY-----"


def a_token(chance: Chance) -> str:
    return f"{letters(chance, 20)}{chance.randint(0, 9)}.{letters(chance, 12)}"


def a_password(chance: Chance) -> str:
    return f"{letters(chance, 8)}{chance.randint(0, 9)}{chance.choice('!#?')}".replace("#", "_").replace("?", "-")


PLANTED: dict[str, tuple[Callable[[Chance], str], tuple[str, ...]]] = {
    "email": (an_email, ("{}", "mailto:{}", "<{}>", '{{"to": "{}"}}')),
    "phone": (a_phone, ("{}", "tel. {}", "call {} now", "({})")),
    "card": (a_card, ("{}", "card {},", '{{"pan": "{}"}}')),
    "iban": (an_iban, ("{}", "IBAN {}.", "to {} please")),
    "ssn": (a_ssn, ("{}", "SSN {}", "({})")),
    "ip": (an_ip, ("{}", "from {} at", "[{}]", '"{}"')),
    "jwt": (a_jwt, ("{}", "cookie={};", '{{"jwt": "{}"}}')),
    "api_key": (an_api_key, ("{}", "use {} for it", "export KEY={}", '"{}"')),
    "aws_key": (an_aws_key, ("{}", "aws_access_key_id = {}", '"{}"')),
    "private_key": (a_private_key, ("{}", "key:\n{}\nend")),
    "bearer": (a_token, ("Bearer {}", "Authorization: Bearer {}", "'authorization': 'bearer {}'")),
    "url_password": (
        a_password,
        ("postgresql://app:{}@db.internal/x", "https://u:{}@example.org/p?q=1", "redis://:{}@h"),
    ),
    "secret": (a_password, ("password={}", 'api_key: "{}"', "PASSWORD: {}", '"client_secret": "{}"')),
}


# ── what only looks alike ─────────────────────────────────────────────────────────────────────────

INNOCENT: tuple[Callable[[Chance], str], ...] = (
    lambda chance: f"2026-{chance.randint(1, 12):02d}-{chance.randint(1, 28):02d}T12:30:{chance.randint(10, 59)}Z",
    lambda chance: f"on {chance.randint(1, 28):02d}.{chance.randint(1, 12):02d}.2026 at 14:05",
    lambda chance: (
        f"version {chance.randint(0, 9)}.{chance.randint(0, 20)}.{chance.randint(0, 9)}.{chance.randint(0, 9)}"
    ),
    lambda chance: f"v{chance.randint(0, 9)}.{chance.randint(0, 99)}.{chance.randint(0, 99)}",
    lambda chance: f"order {digits(chance, 8)}",
    lambda chance: f"invoice 2026-{digits(chance, 6)}",
    lambda chance: letters(chance, 40, "0123456789abcdef"),
    lambda chance: letters(chance, 64, "0123456789abcdef"),
    lambda chance: "-".join(letters(chance, size, "0123456789abcdef") for size in (8, 4, 4, 4, 12)),
    lambda chance: f"${chance.randint(1, 999)},{digits(chance, 3)}.{digits(chance, 2)}",
    lambda chance: f"1{digits(chance, 15)} microseconds",
    lambda chance: f"{chance.randint(10, 99)}.{digits(chance, 8)}, -{chance.randint(10, 99)}.{digits(chance, 8)}",
    lambda chance: f"std::vector<{chance.choice(['int', 'double'])}> abc::def",
    lambda chance: f"{chance.randint(0, 23):02d}:{chance.randint(0, 59):02d}:{chance.randint(0, 59):02d}",
    lambda chance: ":".join(letters(chance, 2, "0123456789ABCDEF") for _ in range(6)),
    lambda chance: f"git@github.com:org/repo-{chance.randint(1, 99)}.git",
    lambda chance: f"@user{chance.randint(1, 99)} wrote: see #123",
    lambda chance: "postgresql://user:${PASSWORD}@db/x and https://user:password@example.org",
    lambda chance: chance.choice(["password: required", "the password is secret", "api_key = os.environ[KEY]"]),
    lambda chance: "localhost 127.0.0.1 and ::1 and 0.0.0.0",
    lambda chance: f"{chance.randint(2, 9)} x {chance.randint(2, 9)} = {chance.randint(4, 81)}",
    lambda chance: f"ISBN 978-3-16-{digits(chance, 6)}-{chance.randint(0, 9)}",
    lambda chance: f"pages {chance.randint(1, 400)}-{chance.randint(401, 900)}, chapter 3.2.1.4",
    lambda chance: f"lambda x: x['a'][{chance.randint(0, 9)}:{chance.randint(10, 99)}] = {{'k': 1}}",
    lambda chance: f"https://example.org/a/b-{digits(chance, 10)}?page={chance.randint(1, 9)}",
    lambda chance: f"sk-learn and task-{chance.randint(1, 999)} and risk-free",
    lambda chance: f"IP rating 6{chance.randint(0, 9)}; score {chance.randint(0, 9)}-{chance.randint(0, 9)}",
    lambda chance: f"commit {letters(chance, 7, '0123456789abcdef')} fixes 1-800 lines",
)
PROSE = "The train leaves at noon; please check the seats and tell me what you think of the plan, thanks."


class Counts:
    """True and false finds of one kind."""

    def __init__(self) -> None:
        self.planted = self.found = self.right = 0
        self.missed: list[str] = []
        self.wrong: list[str] = []

    @property
    def recall(self) -> float:
        return self.right / self.planted if self.planted else 1.0

    @property
    def precision(self) -> float:
        return self.right / self.found if self.found else 1.0


def measured(seed: int = SEED) -> dict[str, Counts]:
    """Recall and precision over the corpus: a find is right if it covers what was planted there, of its kind."""
    chance = random.Random(seed)
    counts = {kind: Counts() for kind in KINDS}
    for kind, (make, frames) in PLANTED.items():
        for _ in range(EACH):
            thing = make(chance)
            framed = chance.choice(frames).format(thing)
            words = PROSE.split()
            place = chance.randrange(len(words))
            text = " ".join([*words[:place], framed, chance.choice(INNOCENT)(chance), *words[place:]])
            start = text.index(thing)
            finds = find(text)
            counts[kind].planted += 1
            hit = [
                item for item in finds if item.kind == kind and item.start <= start and item.end >= start + len(thing)
            ]
            counts[kind].right += bool(hit)
            counts[kind].missed += [] if hit else [framed]
            for item in finds:
                counts[item.kind].found += 1
                counts[item.kind].wrong += [] if item in hit else [text[item.start : item.end]]
    for _ in range(EACH * 10):
        text = f"{PROSE} {chance.choice(INNOCENT)(chance)} {PROSE}"
        for item in find(text):
            counts[item.kind].found += 1
            counts[item.kind].wrong.append(text[item.start : item.end])
    return counts


CORPUS = measured()


def test_the_corpus_plants_every_kind() -> None:
    assert set(PLANTED) == set(KINDS)
    assert all(counts.planted == EACH for counts in CORPUS.values())


@pytest.mark.parametrize("kind", KINDS)
def test_recall_and_precision_are_high(kind: str, record_property: Callable[[str, object], None]) -> None:
    counts = CORPUS[kind]
    record_property("recall", counts.recall)
    record_property("precision", counts.precision)
    print(f"{kind:<14} recall {counts.recall:.3f}  precision {counts.precision:.3f}  ({counts.planted} planted)")
    assert counts.recall >= RECALL, counts.missed[:10]
    assert counts.precision >= PRECISION, counts.wrong[:10]


# ── single cases ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("write to ana@example.org, please", "write to [email], please"),
        ("4111 1111 1111 1111 exp 12/29", "[card] exp 12/29"),
        ("4111 1111 1111 1112", "4111 1111 1111 1112"),
        ("DE89 3704 0044 0532 0130 00 (Bank)", "[iban] (Bank)"),
        ("DE88 3704 1244 5532 5130 91", "DE88 3704 1244 5532 5130 91"),
        ("000-12-3456 666-12-3456 912-12-3456", "000-12-3456 666-12-3456 912-12-3456"),
        ("amqp://u:p4ss@host", "amqp://u:[url_password]@host"),
        ("-----BEGIN PRIVATE KEY-----\nabc", "[private_key]"),
        ("Bearer 0123456789abcdef0123", "Bearer [bearer]"),
        ("bearer of good news everywhere", "bearer of good news everywhere"),
        ("aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCYzzzzzzzKEY", "aws_secret_access_key = [aws_key]"),
        ("2001:0db8:85a3:0000:0000:8a2e:0370:7334 up", "[ip] up"),
    ],
)
def test_what_is_found_is_replaced_by_its_kind(text: str, shown: str) -> None:
    assert mask(text) == shown


def test_what_is_asked_for_is_what_is_found() -> None:
    text = "ana@example.org uses sk-ant-api03-abcdefghijklmnopqrstuvwx"
    assert [item.kind for item in find(text, "pii")] == ["email"]
    assert [item.kind for item in find(text, "credentials")] == ["api_key"]
    assert [item.kind for item in find(text)] == ["email", "api_key"]


def test_things_that_overlap_are_one_and_all_of_it_goes() -> None:
    text = "token: ghp_abcdefghijklmnopqrstuvwxyz0123456789, api_key=ghp_abcdefghijklmnopqrstuvwxyz0123456789!x"
    assert mask(text) == "token: [api_key], api_key=[secret]"


def test_a_secret_is_known_by_the_name_it_stands_under() -> None:
    assert holds({"db": {"password": "hunter"}})
    assert masked({"db": {"password": "hunter", "port": 5432}}) == {"db": {"password": "[secret]", "port": 5432}}
    assert not holds({"db": {"password": "hunter"}}, "pii")
    assert not holds({"password": "", "token_count": "many", "passwords": "none"})


def test_masking_keeps_the_shape_and_the_types() -> None:
    value = {
        "who": ["ana@example.org", "plain", 7, None, 1.5],
        "ben@example.org": {"n": 1},
        "cy@example.org": {"n": 2},
        "pan": 4111111111111111,
        "raw": b"call (415) 555-2671",
        "set": {"dora@example.org", "x"},
        "ref": Ref("https://u:s3cr3tpass@example.org/x", bytes(32)),
        "junk": b"\xff\xfe",
    }
    assert masked(value) == {
        "who": ["[email]", "plain", 7, None, 1.5],
        "[email]": {"n": 1},
        "[email] 2": {"n": 2},
        "pan": 0,
        "raw": b"call [phone]",
        "set": frozenset({"[email]", "x"}),
        "ref": Ref("https://u:[url_password]@example.org/x", bytes(32)),
        "junk": b"\xff\xfe",
    }


@given(values)
def test_what_was_masked_holds_nothing_any_more(value: Any) -> None:
    assert not holds(masked(value))
    assert masked(masked(value)) == masked(value)


@given(st.lists(st.sampled_from([*PLANTED]), max_size=5), st.integers(0, 2**32))
def test_masking_twice_is_masking_once(kinds: list[str], seed: int) -> None:
    chance = random.Random(seed)
    text = " ; ".join(PLANTED[kind][1][0].format(PLANTED[kind][0](chance)) for kind in kinds)
    assert mask(mask(text)) == mask(text)
    assert not find(mask(text))


@given(values)
def test_what_holds_nothing_stays_as_it_is(value: Any) -> None:
    if not holds(value):
        assert same(masked(value), value)


@pytest.mark.parametrize(
    "piece",
    [
        "a@",
        "+1",
        "1 ",
        "1-",
        "1.",
        "0:",
        "a.",
        "eyJa.",
        "sk-",
        "://a:",
        "password=",
        "-----BEGIN ",
        "DE89",
        "bearer ",
        "(",
    ],
)
def test_no_text_takes_more_steps_than_its_length_allows(piece: str) -> None:
    """Whatever repeats cannot make a pattern try over and over: this would not come back in a lifetime if one did."""
    for text in (
        piece * (200_000 // len(piece)),
        piece * 50 + "x" * 100_000 + piece,
        "".join(piece + letter for letter in string.ascii_letters) * 200,
    ):
        places = [place for found in find(text) for place in (found.start, found.end)]
        assert places == sorted(places)
        assert not places or 0 <= places[0] < places[-1] <= len(text)
