"""Words that say the same, words that say the opposite, and words that say nothing: what comparing statements goes by.

All of it is English and general; statements in other languages are compared by their words as they are written.
"""

from typing import Final

from perdure.core.memory.words import STOP, stem


def _grouped(groups: str) -> dict[str, str]:
    """Stems to the first word of their line."""
    lines = [line.split() for line in groups.strip().splitlines()]
    return {stem(word): words[0] for words in lines for word in words}


SAME: Final = _grouped(
    """
    like love enjoy adore fond
    buy purchase acquire bought
    large big huge
    small little tiny
    start begin commence began
    finish complete
    end terminate conclude
    yearly annual annually
    want wants wish desire
    need require requires
    use uses utilize utilise employs
    show display
    help assist aid
    speak talk
    job occupation profession
    child kid
    name call
    short concise brief
    birthday born
    mom mother mum
    dad father
    car automobile vehicle
    movie film
    photo picture image
    phone telephone cellphone
    email e-mail mail
    quick fast rapid
    happy glad pleased
    sad unhappy
    doctor physician
    error mistake
    problem issue
    fix repair
    create make build
    remove delete
    get receive obtain
    give provide offer
    keep retain maintain
    allow permit
    exceed surpass
    earn yield generate pay return
    charge cost
    trade swap exchange
    gain profit
    meeting meet
    usd dollar dollars
    eur euro euros
    eth ether
    btc bitcoin
    apartment flat
    company firm
    city town
    colour color
    reply answer respond
    ask request
    tell inform notify
    often frequently regularly
    report summary
    client customer
    allergic allergy
    limit restrict
    rule policy
    tolerance appetite
    safe secure
    total overall
    website site
    beat outperform outperformed
    worse underperform underperformed
    """
)
"""What stands for the stem of a word that others say the same by."""
EXACT: Final = {
    word: line.split()[0]
    for line in """
    prefer prefers preferring favors favours
    favourite favorite preferred favourites favorites
    live lives living reside resides residing dwells based home relocates relocated moved moves moving located situated
    work works working employed
    monthly
    weekly
    daily
    yearly
    name named called
    birthday born birthdate birthplace
    maximum max highest cap ceiling
    minimum min lowest floor
    """.strip().splitlines()
    for word in line.split()
}
"""The same for words whose other forms mean something else."""

OPPOSITE: Final = {
    stem(word): stem(plain)
    for word, plain in {
        "hate": "like",
        "hates": "like",
        "dislike": "like",
        "dislikes": "like",
        "detest": "like",
        "disabled": "enabled",
        "disable": "enable",
        "inactive": "active",
        "closed": "open",
        "false": "true",
        "forbid": "allow",
        "forbidden": "allowed",
        "prohibit": "allow",
        "prohibited": "allowed",
        "reject": "accept",
        "refuse": "accept",
        "bearish": "bullish",
        "unsafe": "safe",
        "insecure": "secure",
        "unavailable": "available",
        "offline": "online",
        "unverified": "verified",
        "illiquid": "liquid",
        "underperform": "outperform",
        "underperformed": "outperformed",
        "fail": "pass",
        "failing": "passing",
    }.items()
}
"""Stems that deny what another one says."""

DENIALS: Final = frozenset(
    """
    not no never without nor neither none cannot stopped quit ceased
    don't doesn't didn't isn't aren't wasn't weren't won't wouldn't can't couldn't shouldn't hasn't haven't hadn't
    """.split()
)
"""Words that turn a statement round."""

KEPT: Final = frozenset(
    """
    up down off out more most few many only must may might before after above below under over against each both all
    never without
    """.split()
)
"""Words that are in every other sentence, and yet change what it says."""

FILLERS: Final = STOP - KEPT | frozenset(
    """
        currently presently today still already generally usually typically actually basically indeed apparently simply
        roughly approximately approx circa overall reportedly nowadays right moment longer anymore
        note noted notes remember fyi please mentioned mentions stated states told tells confirmed confirms reported
        indicated indicates explained recorded observed according that's known fact information info
        quite rather pretty definitely certainly clearly particularly especially strongly tends tend tended
        various kind sort owns owned updated update latest newest recently recent instead
        """.split()
)
"""Words that add nothing to a statement."""

CHANGES: Final = frozenset(
    map(
        stem,
        """
        change changed changes rise rose risen rises fall fell fallen falls drop dropped drops increase increased
        decrease decreased raise raised lower lowered grow grew grown reduce reduced cut switch switched switches adjust
        adjusted bumped bump climbed climb slipped slip went set configured reschedule rescheduled postpone postponed
        shift shifted upgrade upgraded downgrade downgraded
        """.split(),
    )
)
"""Verbs that say that something is another way now."""

LINKS: Final = frozenset(
    """
    is are was were be been has have had equals equal stands sits remains reached reaches became becomes
    : = at to costs pays earns yields offers charges holds weighs measures totals averages takes lasts runs
    uses requires supports needs ranks owns
    """.split()
)
"""What stands between a subject and its value."""

ATTRIBUTES: Final = frozenset(
    EXACT.get(word) or SAME.get(stem(word), stem(word))
    for word in """
        favourite favorite preferred default primary main current address city home job employer title email phone
        name nickname age birthday price rate apy apr yield fee limit threshold cap maximum minimum target size count
        balance score status state version deadline date time timezone location language theme color colour budget
        salary weight height owner manager leader lead tolerance allocation slippage leverage collateral ratio tvl cost
        level percentage capacity temperature interval frequency plan tier role team mode format currency unit provider
        model password colour seat diet school university major car hometown spouse partner number area code zip
        schedule day hour hours headquarters ceo contact subscription rank grade position priority severity region
        endpoint url branch environment username handle blood type allergy network chain stop loss goal boss supervisor
        wife husband girlfriend boyfriend landlord
        strategy horizon exposure reserve supply volume premium discount spread duration length width speed latency
        """.split()
)
"""Things of which somebody or something has one at a time."""

NUMBERED: Final = frozenset(
    stem(word)
    for word in """
        model number code version level tier area zip branch team position rank grade unit type chain day plan goal
        region seat role title name address car
        """.split()
)
"""Of the attributes those that go by numbers as names do: model 7 is not seven of anything."""

WANTING: Final = frozenset({"prefer", "want", "need"})
"""Verbs by which a preference takes the place of another; what one likes is many things."""

DIRECTIONS: Final = frozenset("from to into over than before after above below under until against by".split())
"""Words that give the word after them its part: from one to another is not from another to one."""

ENDS: Final = frozenset(
    "with since because and but while when where who which although though last next this until as so if".split()
)
"""Words that begin something beside what was said."""

BOUNDARIES: Final = (ENDS - {"last"}) | frozenset(
    "in on at for by from to during after before per via under over of within , . ; ( - –".split()
)
"""What an addition begins with: without one of these it changes what the words before it mean."""

HAPPENED: Final = frozenset(
    """
    bought sold paid sent met went made got took won lost ran spent gave saw left came found had flew drove ate wrote
    read told lent built began slept swam rode spoke drank sang sat stood taught caught brought fought heard chose broke
    woke threw stole forgot dug fed hid sank swept tore withdrew
    """.split()
)
"""Past forms that do not show it by their ending: what happened once is not undone by what happened later."""
_NUMBERS: Final = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen twenty"
)
NUMBERS: Final = {word: value for value, word in enumerate(_NUMBERS.split()) if word != "one"} | {
    "thirty": 30, "forty": 40, "fifty": 50, "sixty": 60, "seventy": 70, "eighty": 80, "ninety": 90, "dozen": 12,
}  # fmt: skip
SCALES: Final = {
    "k": 1_000, "thousand": 1_000, "m": 1_000_000, "mn": 1_000_000, "million": 1_000_000, "b": 1_000_000_000,
    "bn": 1_000_000_000, "billion": 1_000_000_000, "hundred": 100,
}  # fmt: skip
MONTHS: Final = {
    name: number
    for number, names in enumerate(
        "january jan|february feb|march mar|april apr|may|june jun|july jul|august aug|september sep sept|october oct|"
        "november nov|december dec".split("|"),
        1,
    )
    for name in names.split()
}
NOW: Final = frozenset("now nowadays instead anymore switched changed lately".split())
"""Words by which somebody says that something is another way than before."""
_STATES: Final = """
single married divorced engaged widowed
vegetarian vegan omnivore pescatarian carnivore
employed unemployed retired
low medium moderate high
beginner intermediate advanced expert
free basic standard premium enterprise
conservative balanced aggressive
monday tuesday wednesday thursday friday saturday sunday
red blue green yellow black white grey brown purple pink
january february march april june july august september october november december
"""
EXCLUSIVE: Final = {
    EXACT.get(word) or SAME.get(stem(word), stem(word)): f"state{number}"
    for number, line in enumerate(_STATES.strip().splitlines())
    for word in line.split()
}
"""States of which somebody is in one at a time."""
UNITS: Final = {
    word: line.split()[0]
    for line in """
    second s sec secs seconds
    minute min mins minutes
    hour h hr hrs hours
    day d days
    ms millisecond milliseconds
    gb gigabyte gigabytes
    km kilometer kilometers kilometre kilometres
    kg kilo kilos kilogram kilograms
    """.strip().splitlines()
    for word in line.split()
}
"""What stands after a number, however it is written."""
TIMED: Final = frozenset("ends starts begins expires opens closes departs leaves arrives lands".split())
"""Verbs that say when: of that there is one at a time."""
