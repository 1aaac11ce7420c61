"""What must survive a compaction, as data: profiles of named categories, and how their values are recognised.

A value is recognised by the name it stands under (a key of a document, or a line such as `name: value`), by its form (a
pattern), or as a whole sentence (decisions and questions); `recognising` does it. Every repetition in a pattern is
bounded, so that no text takes long to read; what is beyond a bound is not recognised, rather than cut.
"""

from typing import Final

import msgspec

from perdure.core.errors import Invalid


class Category(msgspec.Struct, frozen=True, kw_only=True):
    """Values of one sort. `asks` tells a model what to keep; `names` are words of keys, `forms` are patterns whose
    groups `name` and `value` count if there are any, `signs` make a sentence a value, and so does a question mark of
    the user's with `questions`.
    """

    name: str
    asks: str
    names: tuple[str, ...] = ()
    forms: tuple[str, ...] = ()
    signs: tuple[str, ...] = ()
    questions: bool = False


class Profile(msgspec.Struct, frozen=True, kw_only=True):
    """Categories under a name."""

    name: str
    categories: tuple[Category, ...]


DIGITS: Final = r"\d{1,40}(?:[,_]\d{1,40}){0,12}(?:\.\d{1,40})?(?![.,_]?\d)"
START: Final = r"(?<![\w.-])(?<!\d,)"
NUMBER: Final = rf"[-+−]?[$€£]?{DIGITS}(?:[eE][-+]?\d{{1,4}})?(?:%|(?:bps|[KMB])\b)?"
MOMENT: Final = r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d{1,30})?)?(?:Z|[-+]\d\d:?\d\d)?)?(?!\d)"
_UNTIL: Final = rf"{MOMENT}|\d{{9,13}}\b"
_WORDS: Final = r"[A-Za-z]\w{0,40}(?: [A-Za-z]\w{0,40}){0,3}"
DECISIONS: Final = Category(
    name="decisions",
    asks="key decisions and the reasons for them",
    names=("decision", "rationale"),
    signs=(
        "decid(?:e|ed|es|ing)",
        "decisions?",
        "agreed",
        "chose|chosen",
        "conclud(?:e|ed|es|ing)",
        "opted",
        "settled on",
        "(?:going|will go) with",
    ),
)
_QUESTIONS: Final = Category(
    name="open_questions",
    asks="questions that nobody has answered yet",
    names=("open question", "unresolved", "to be decided", "tbd"),
    questions=True,
)

GENERIC: Final = Profile(
    name="generic",
    categories=(
        Category(
            name="identifiers",
            asks="identifiers, hashes and the names of versions",
            names=("id", "uuid", "identifier", "ticket", "order", "account", "reference", "commit", "sha"),
            forms=(
                r"\b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b",
                r"\b0x[0-9a-fA-F]{8,128}\b",
                r"(?<![\w.,])(?=[a-f]{0,63}\d)[0-9a-f]{12,64}\b",
                r"\b[A-Z][A-Z0-9]{1,9}-\d{1,12}\b",
                r"\b[a-z]{2,12}_(?=[A-Za-z]{0,40}\d)[A-Za-z0-9]{6,64}\b",
                r"\bv\d{1,4}\.\d{1,6}(?:\.\d{1,9})?(?:-[\w.]{1,40})?\b",
            ),
        ),
        Category(
            name="amounts",
            asks="amounts with their currencies and units",
            names=("amount", "price", "total", "cost", "balance", "budget", "limit", "quantity"),
            forms=(
                rf"[-+−]?[$€£¥]\s?{DIGITS}(?:\s?[KMB]\b)?",
                rf"{START}[-+−]?{DIGITS}\s?(?:%|[kMGT]i?B\b|(?:ms|kg|km|h|min)\b|[A-Z]{{3,5}}\b)",
            ),
        ),
        Category(
            name="dates",
            asks="dates and times",
            names=("date", "deadline", "due", "expiry", "expires at"),
            forms=(rf"\b{MOMENT}", r"\b\d{1,2}\.\d{1,2}\.\d{4}\b", r"\b\d{1,2}/\d{1,2}/\d{4}\b"),
        ),
        Category(
            name="urls",
            asks="addresses on the web and of mail",
            names=("url", "uri", "endpoint", "link"),
            forms=(
                r"\b[a-z][a-z0-9+.-]{1,15}://[^\s<>\"'`)\]}]{0,2000}[^\s<>\"'`)\]}.,;:!?]",
                r"(?<![\w.+-])[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,8}(?![\w-])",
            ),
        ),
        Category(
            name="paths",
            asks="paths of files",
            names=("path", "file", "filename", "folder", "directory"),
            forms=(
                r"(?<![\w/:.@+-])~?(?:/[\w.@+-]{0,99}\w){2,30}/?(?![\w@+/-]|\.\w)",
                r"(?<![\w/.@+-])(?:\.{1,2}/)?(?:[\w.@+-]{1,100}/){1,30}[\w@+-]{1,100}\.[A-Za-z]\w{0,7}\b",
                r"\b[A-Z]:\\[^\s:*?\"<>|]{0,2000}[^\s:*?\"<>|.,;!]",
            ),
        ),
        Category(
            name="settings",
            asks="settings, as lines of the form `name = value`",
            names=("setting", "config"),
            forms=(r"(?m)^[ \t]*(?P<name>[A-Za-z_][\w.\-]{0,60})[ \t]*=[ \t]*(?P<value>[^\s=][^\n]*)$",),
        ),
        DECISIONS,
        _QUESTIONS,
    ),
)

DEFI: Final = Profile(
    name="defi",
    categories=(
        Category(
            name="vault_state",
            asks="vault state: addresses, token balances, LP positions and their values",
            names=(
                *("vault", "address", "balance", "holding", "position", "lp", "liquidity", "tvl", "nav", "share"),
                *("collateral", "debt", "tick lower", "tick upper", "token id", "value usd", "value usdc", "usdc"),
            ),
            forms=(
                r"\b0x(?:[0-9a-fA-F]{64}|[0-9a-fA-F]{40})\b",
                r"(?<![\w-])[\w-]{2,63}\.eth\b",
                rf"{START}[-+−]?{DIGITS}\s(?:[a-z]{{1,3}})?[A-Z][A-Z0-9]{{1,9}}(?:\.e)?\b",
                rf"[-+−]?\${DIGITS}(?:\s?[KMB]\b)?",
                r"\b(?:[a-z]{1,3})?[A-Z][A-Z0-9]{1,9}/(?:[a-z]{1,3})?[A-Z][A-Z0-9]{1,9}(?:\s\d{1,3}(?:\.\d{1,6})?%)?",
            ),
        ),
        Category(
            name="pending_actions",
            asks="pending actions: permit ids, when they expire, their parameters",
            names=(
                *("pending", "permit", "action", "nonce", "expiry", "expire", "expires at", "valid until", "deadline"),
                *("calldata", "slippage", "spender", "approval", "queued"),
            ),
            forms=(
                r"\b(?i:action|permit|ap|actionpermit)[-_#](?=[A-Za-z_-]{0,60}\d)[\w-]{0,80}\w(?![\w-])",
                rf"(?i:\bexpir\w{{1,8}}|\bdeadline|\bvalid until)\W{{1,4}}(?:(?:at|on|by|is)\s)?(?P<value>{_UNTIL})",
            ),
        ),
        Category(
            name="strategy_parameters",
            asks="strategy parameters: heuristics with their exact thresholds",
            names=(
                *("strategy", "playbook", "heuristic", "threshold", "parameter", "target", "allocation", "weight"),
                *("rebalance", "fee tier", "leverage", "ltv", "min", "max", "range", "cooldown"),
            ),
            forms=(
                rf"\b{_WORDS} ?(?:<=|>=|[<>≤≥]) ?[-+−]?\$?{DIGITS}(?:%|[KMB]\b)?",
                rf"{START}[-+−]?{DIGITS}\s?(?:%|bps\b)",
            ),
        ),
        Category(
            name="risk_state",
            asks="risk state: the current tier, active guardrails, drawdown",
            names=(
                *("risk", "tier", "guardrail", "drawdown", "health factor", "liquidation", "exposure", "stop loss"),
                *("policy", "policy cage", "circuit breaker"),
            ),
            forms=(r"\b(?i:risk tier|tier)\s(?:is\s)?(?P<value>\d{1,4}|[A-Z]{1,20}\b)",),
        ),
        Category(
            name="emotional_state",
            asks="emotional state: the values of the PAD vector, the Plutchik label",
            names=("pad", "pleasure", "arousal", "dominance", "valence", "plutchik", "emotion", "emotional", "mood"),
            forms=(r"\bPAD\W{0,10}[\[(<] ?[-+−]?\d{0,3}\.?\d{1,18}(?: ?[,;/] ?[-+−]?\d{0,3}\.?\d{1,18}){2} ?[\])>]",),
        ),
        Category(
            name="mortality_state",
            asks="mortality state: vitality, phase, projected time to live",
            names=("vitality", "mortality", "phase", "ttl", "projected ttl", "lifespan", "time to live"),
            forms=(r"\b(?i:phase)\s(?:is\s|now\s)?(?P<value>[A-Z][A-Za-z]{1,30})\b",),
        ),
        DECISIONS,
        _QUESTIONS,
    ),
)

PROFILES: Final = {profile.name: profile for profile in (GENERIC, DEFI)}


def profile_of(name: str | None) -> Profile:
    """The profile of that name; without one, the generic one. Raises `Invalid`, which names those there are."""
    found = PROFILES.get(name or GENERIC.name)
    if found is None:
        raise Invalid(f"there is no profile {name!r} to preserve by; use one of {', '.join(PROFILES)}", profile=name)
    return found
