"""Words that are not what they should be: ids, tokens, keys, cursors, numbers, texts, and documents no field wants."""

import base64
import copy
import json
import random
from typing import Any

HUGE = 1 << 400
TEXTS = (
    "",
    " ",
    "\t",
    "0",
    "-1",
    "null",
    "true",
    "NaN",
    "Infinity",
    "1e999",
    "9" * 400,
    "-" + "9" * 400,
    "9223372036854775807",
    "9223372036854775808",
    "18446744073709551616",
    "..",
    "../../../etc/passwd",
    "%2e%2e%2f",
    "%00",
    "%",
    "%zz",
    "%ff%fe",
    "%c0%af",
    "%ed%a0%80",
    "\u0000",
    "a\u0000b",
    "\u202e\u2066",
    "\ufeff",
    "\U0001f9ff" * 50,
    "e\u0301" * 300,
    "\u0130\u0131\ufb01",
    "' OR '1'='1",
    "'; DROP TABLE sessions; --",
    '"; --',
    "${jndi:ldap://127.0.0.1/a}",
    "{{7*7}}",
    "{0.__class__}",
    "%s%s%s%n",
    "<script>alert(1)</script>",
    "[object Object]",
    "__proto__",
    "constructor",
    "$bytes",
    "\\",
    "\\u0000",
    "x" * 255,
    "x" * 256,
    "x" * 257,
    "x" * 1001,
    "x" * 70_000,
)
VALUES: tuple[Any, ...] = (
    None,
    True,
    False,
    0,
    -1,
    1,
    2**31,
    2**53,
    2**53 + 1,
    2**62,
    2**63 - 1,
    2**63,
    2**64 - 1,
    2**64,
    -(2**63),
    -(2**63) - 1,
    HUGE,
    -HUGE,
    0.0,
    -0.0,
    0.1,
    1.0,
    1e-320,
    1e308,
    -1.5,
    [],
    {},
    [[]],
    [None],
    [1, "a", None],
    {"": None},
    {"a": {"b": {"c": []}}},
    {"$bytes": "AA=="},
    {"$time": "never"},
    {"$ref": "#/components/schemas/Problem"},
    {"value": {}},
    ["x"] * 101,
    [{}] * 50,
    {str(n): n for n in range(300)},
)
LITERALS = (b"NaN", b"Infinity", b"-Infinity", b"1e999", b"-1e999", b"01", b"1.", b".5", b"+1", b"0x10", b"1e", b"--1")
ALIKE = (b"'a'", b"undefined", b"None", b"True", b"nul", b"tru", b'"\\x"', b'"\\ud800"', b'"\\u12"', b'"a\nb"', b'"')


def text(chance: random.Random) -> str:
    """A text that nobody asked for."""
    roll = chance.random()
    if roll < 0.7:
        return chance.choice(TEXTS)
    if roll < 0.85:
        return "".join(
            chr(chance.choice((chance.randrange(32, 127), chance.randrange(0xD800))))
            for _ in range(chance.randrange(40))
        )
    return base64.urlsafe_b64encode(chance.randbytes(chance.randrange(200))).decode()


def value(chance: random.Random) -> Any:
    """A value of any kind."""
    return text(chance) if chance.random() < 0.4 else copy.deepcopy(chance.choice(VALUES))


def spelled_id(chance: random.Random, known: list[str]) -> str:
    """Something like an id: cut, lengthened, in another case, one digit off, or none at all."""
    if known and chance.random() < 0.6:
        real = chance.choice(known)
        at = chance.randrange(len(real))
        return chance.choice(
            (
                real[:at],
                real + "0",
                real.upper(),
                real.replace("-", ""),
                real[:at] + chance.choice("0123456789abcdefg-") + real[at + 1 :],
                real[::-1],
                "{" + real + "}",
                f"urn:uuid:{real}",
                f" {real}",
                real + "\u0000",
            )
        )
    if chance.random() < 0.5:
        digits = chance.randbytes(16).hex()
        return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"
    return text(chance)


def credential(chance: random.Random, key: str) -> str:
    """Something like a key or a token, which opens nothing."""
    return chance.choice(
        (
            key[:-1],
            key[:-1] + ("a" if key[-1] != "a" else "b"),
            key + "a",
            key.upper(),
            key.replace("pdk_", "pdk-"),
            "pdk_",
            "pdk_" + chance.randbytes(32).hex(),
            "pdk_" + "x" * chance.choice((1, 43, 500, 20_000)),
            token(chance),
            token(chance),
            text(chance).encode("ascii", "ignore").decode().replace("\n", "").replace("\r", ""),
        )
    )


def token(chance: random.Random) -> str:
    """A JWT that nobody signed: no algorithm, a wrong one, odd claims, pieces missing or not base64."""
    head = {
        "alg": chance.choice(("none", "None", "HS256", "RS256", "ES256", "EdDSA", "HS999", "", None, 7, [])),
        "typ": chance.choice(("JWT", "perdure-session+jwt", "perdure-refresh+jwt", "at+jwt", "", None)),
        "kid": chance.choice(("1", "../../dev/null", "' OR 1=1", "", None, {}, "k" * 5000)),
    }
    if chance.random() < 0.2:
        head["jwk"] = {"kty": "oct", "k": "AAAA"}
    if chance.random() < 0.2:
        head["crit"] = ["exp"]
    claims = {
        name: value(chance)
        for name in ("sub", "aud", "iss", "exp", "nbf", "iat", "jti", "session", "family", "tenant", "principal")
        if chance.random() < 0.7
    }
    pieces = [_b64(head), _b64(claims), base64.urlsafe_b64encode(chance.randbytes(32)).decode().rstrip("=")]
    roll = chance.random()
    if roll < 0.2:
        pieces = pieces[: chance.randrange(3)]
    elif roll < 0.3:
        pieces += pieces
    elif roll < 0.4:
        pieces[chance.randrange(3)] = "!!!"
    elif roll < 0.5:
        pieces[2] = ""
    return ".".join(pieces)


def _b64(document: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(document).encode()).decode().rstrip("=")


def cursor(chance: random.Random, known: list[str]) -> str:
    """Something like a page's cursor."""
    if known and chance.random() < 0.5:
        raw = bytearray(chance.choice(known).encode())
        raw[chance.randrange(len(raw))] = chance.choice(b"ABCabc0123_-=")
        return raw.decode("latin-1")
    return chance.choice((text(chance), base64.urlsafe_b64encode(chance.randbytes(chance.randrange(80))).decode()))


def version(chance: random.Random) -> str:
    """Something like an If-Match."""
    return chance.choice(
        (
            '"0"',
            '"-1"',
            '"1.0"',
            '""',
            '"',
            "W/",
            'W/"x"',
            '"1", "2"',
            '"' + "9" * 19 + '"',
            '"' + "9" * 30 + '"',
            "*, *",
            "1 2",
            "\u00b2",
        )
    )


def span(chance: random.Random) -> str:
    """Something like a Range."""
    return chance.choice(
        (
            "bytes=",
            "bytes=-",
            "bytes=-0",
            "bytes=5-1",
            "bytes=0-0,1-1",
            "bytes=99999999999999999999-",
            "bytes=0-" + "9" * 30,
            "bytes=-" + "9" * 19,
            "items=0-1",
            "bytes 0-1",
            "bytes=a-b",
            "bytes=\u00b2-",
            "bytes=" + "0-1," * 2000,
        )
    )
