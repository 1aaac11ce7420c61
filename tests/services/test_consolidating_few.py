"""In a space of few memories consolidation is careful: what is plainly about two things stays."""

import time

import pytest

import perdure

APART = """Ana lives in Lisbon|Ana's sister lives in Porto
Ana lives in Lisbon|Ana's mother lives in Lisbon
Ana likes tea|Ana likes coffee
Tom is allergic to peanuts|Tom is allergic to shellfish
Tom is allergic to peanuts|Tim is allergic to peanuts
John Smith is the dentist|John Smith Jr is the dentist
Ana's left knee was operated on|Ana's right knee was operated on
Ana wants no meat|Ana wants no fish
Carlos works on the billing team|Carla stopped working on the billing team
Ana speaks Spanish|Ana speaks German
Ana eats vegetarian food|Ana's husband stopped eating vegetarian food
Ana gave up smoking|Ana gave up sugar
Ana no longer works at Acme|Ben now works at Acme
Line A was closed|Line B was opened
Alice manages Bob|Bob manages Carol
The red line stops at Alameda|The blue line no longer stops at Alameda
User's wife is vegan|User is no longer vegan
The user lives in Rome|The user's parents moved to Milan
The staging database runs Postgres 14|The production database runs Postgres 16
The Monday standup is at 9|The Friday standup is at 10
The flight from Lisbon to Madrid leaves at nine|The flight from Madrid to Lisbon leaves at ten
The train to Porto from Faro costs 20 euros|The train from Porto to Faro costs 25 euros
The New York to Boston bus takes 4 hours|The Boston to New York bus takes 5 hours
Room 12 is booked on Monday|Room 12 is booked on Tuesday
Bob sold his car|Bob sold his boat
Last week Bob sold his car|Bob sold his boat last week
Bob sold his car to Tim|Bob sold his boat to Tim
Ana adopted a cat|Ana adopted a dog
Pump A's filter is clogged|Pump B's filter was replaced
PUMP A IS OFFLINE|PUMP B IS ONLINE
A pump is noisy|B pump is noisy
Room 12 is booked at nine|Room 12 is booked at ten
The hall is reserved on May 3|The hall is reserved on May 9
A visit to the plant is scheduled for 3 May|A visit to the plant is scheduled for 9 May
The payments service is written in Go|The payments service is owned by team Falcon
Bug in version 1.2 of the parser|Bug in version 1.3 of the parser
todo: call Ben|todo: call Carl
Maria works as a pharmacist at Hospital La Fe|Maria worked as a pharmacist at Hospital Clinico until 2018
Ana works at Meta|Ana works at the food bank on Saturdays
Ana lives in Oslo|Ana will live in Rome next year
Ana lives in Oslo|Ana lives in Rome in summer
Ana lives in Oslo|Ana would like to live in Rome
Ben lives in Rome|Ana thinks that Ben lives in Rome
Ana is pregnant|Ben said that Ana is pregnant
Ana is allergic to some antibiotics|Ana is allergic to antibiotics
Ana will be in Rome in May|Ana was in Rome in May
Morning dose of insulin is 10 units|Evening dose of insulin is 14 units
The left valve opens at 3 bar|The right valve opens at 5 bar
Use == in JS|Use === in JS
x >= 5 is required|x > 5 is required
Path is /usr/bin|Path is usr/bin
The flag is -v|The flag is -V
Take 1/2 tablet|Take 1 or 2 tablets
Ben killed the process|The process killed Ben
I used to smoke|I smoke
Ana hopes to be pregnant|Ana is pregnant
I used to work at Google|I work at Google
The server might be down|The server is down
Ana lives in Berlin|Supposedly Ana lives in Munich
Ana lives in Berlin|According to Tom, Ana lives in Munich
I live in Berlin|Do I live in Munich?
The price is $20|The price could rise to $25
Dogs are allowed but cats are forbidden|Cats are allowed but dogs are forbidden
I like tea but not coffee|I like coffee but not tea
Ana is coming, Ben is not coming|Ben is coming, Ana is not coming
I do not work when sick|I work when not sick
Ben is the CEO|Ben was the CEO
My dog is called Rex|My other dog is called Max""".splitlines()


@pytest.mark.parametrize("embedder", ["none", "wordllama"])
@pytest.mark.parametrize("pair", APART)
def test_two_that_are_plainly_about_two_things_are_left_alone(pair: str, embedder: str) -> None:
    for notes in (pair.split("|"), pair.split("|")[::-1]):
        with perdure.open(":memory:", memory=embedder) as db:
            space = db.memory("ana")
            for note in notes:
                space.add(note)
            for _ in range(2):  # what was found mistaken is so the next day, too
                run = space.consolidate()
                assert [step for step in space.steps(run.id) if step.did != "changed"] == []


@pytest.mark.parametrize("embedder", ["none", "wordllama"])
def test_letters_tell_things_apart_beside_other_notes_too(embedder: str) -> None:
    said = [
        "Pump {}'s filter is clogged|Pump {}'s filter was replaced",
        "Pump {} runs at 5 bar|Pump {} now runs at 6 bar",
        "The seal of pump {} leaks|The seal of pump {} was fixed",
        "PUMP {} IS OFFLINE|PUMP {} IS ONLINE",
        "Pump {} feeds the north tank|Pump {} now feeds the south tank",
        "Ana lives in Lisbon|The wifi password is hunter2",
    ]
    with perdure.open(":memory:", memory=embedder) as db:
        space = db.memory("ana")
        space.add_many([pair.split("|")[0].format("A") for pair in said])
        space.add_many([pair.split("|")[1].format("B") for pair in said])
        run = space.consolidate()
        assert [step for step in space.steps(run.id) if step.did != "changed"] == []


@pytest.mark.parametrize("embedder", ["none", "wordllama"])
@pytest.mark.parametrize(
    "pair",
    [
        "Ana lives in Lisbon|Ana moved to Porto",
        "The backup runs at 5 pm|The backup runs at 17:00",
        "Alice manages Bob|Alice no longer manages Bob",
        "Bob owns a car|Bob sold his car",
        "The weekly sync is on Monday|The weekly sync is on Tuesday",
        "The appointment is booked for Monday|The appointment is booked for Tuesday",
        "Room 12 is booked on Monday|Room 12 is now booked on Tuesday",
        "Room 12 is booked on May 3|On 3 May room 12 is booked",
        "I live in Berlin|I live in Munich",
        "I work at Google|I work at Meta",
        "My email is a@b.com|My email is c@d.com",
        "My address is 12 Main Street|My address is 40 Oak Avenue",
        "Favorite color is blue|Favorite color is green",
        "The server runs Python 3.8|The server runs Python 3.11",
        "Preferred language: English|Preferred language: German",
        "User's email is a@b.com|User's email is c@d.com",
        "User prefers dark mode|User prefers light mode",
        "Lisa is the CEO of Acme|Peter is now the CEO of Acme",
        "安娜住在北京|安娜住在北京。",
    ],
)
def test_what_is_plainly_about_one_thing_is_settled_among_few_too(pair: str, embedder: str) -> None:
    with perdure.open(":memory:", memory=embedder) as db:
        space = db.memory("ana")
        for note in pair.split("|"):
            space.add(note)
        space.consolidate()
        assert len(list(space.list())) == 1


OPPOSITES = """Ana may take aspirin|Ana should avoid aspirin
Ana is HIV negative|Ana is HIV positive
Tom may eat peanuts|Tom must avoid peanuts
Aspirin is safe for Ana|Aspirin is dangerous for Ana
Ana must avoid nuts|Nuts are fine for Ana
Ana needs insulin|Ana does without insulin
Ana avoids gluten|Ana eats gluten
Deploys on Fridays are fine|Avoid deploys on Fridays
Ana takes 5 mg of warfarin|Ana takes 5 mcg of warfarin
Rent is 900 euros a month|Rent is 900 euros a week
Pay $500 to Ben|Pay €500 to Ben
Ana can log in without a password|Ana can't log in without a password
Always use tabs|Never use tabs
The test was positive|The test was negative
The limit is at most 5|The limit is at least 5""".splitlines()


@pytest.mark.parametrize("pair", OPPOSITES)
def test_what_was_said_last_is_not_lost_to_what_was_used_more(pair: str) -> None:
    older, newer = pair.split("|")
    with perdure.open(":memory:", memory="wordllama") as db:
        space = db.memory("ana")
        space.add(older, importance=0.9)
        space.add(newer)
        space.search(older, top_k=1)
        space.consolidate()
        assert newer in [memory.content for memory in space.list()]


FULLER = """Hugo may eat nuts except peanuts|Hugo may eat nuts
Ana eats fish, but never raw|Ana eats fish
Ana takes ibuprofen, at most twice a day|Ana takes ibuprofen
Ben can read the vault but not write to it|Ben can read the vault
Call Ana only in emergencies|Call Ana in emergencies""".splitlines()


@pytest.mark.parametrize("pair", FULLER)
def test_what_says_less_does_not_take_the_place_of_what_says_more(pair: str) -> None:
    fuller, less = pair.split("|")
    with perdure.open(":memory:", memory="wordllama") as db:
        space = db.memory("ana")
        space.add(fuller)
        space.add(less)
        space.consolidate()
        assert fuller in [memory.content for memory in space.list()]


def test_what_is_about_others_is_left_alone() -> None:
    with perdure.open(":memory:", memory="none") as db:
        space = db.memory("ward")
        for subject, drug, dose in (("ana", "", 10), ("ben", "not ", 20)):
            space.add(f"Is {drug}allergic to peanuts", subjects=[subject])
            space.add(f"Takes {dose} mg of lisinopril", subjects=[subject])
        assert space.consolidate().found == {}
        space.add("Takes 30 mg of lisinopril", subjects=["Ana"])
        assert space.consolidate().found == {"newer": 1}


@pytest.mark.parametrize(
    "metadata",
    [
        ({"project": 17}, {"project": 18}),
        ({"open": True}, {"open": False}),
        ({"where": {"room": "a"}}, {"where": {"room": "b"}}),
        ({"project": "kitchen"}, {"project": "bath"}),
        ({"customer": 4_915_112_345_678}, {"customer": 4_915_112_345_679}),
    ],
)
def test_metadata_tells_things_apart(metadata: tuple[dict[str, object], ...]) -> None:
    with perdure.open(":memory:", memory="none") as db:
        space = db.memory("ana")
        for each in metadata:
            space.add("Status is green", metadata=each)
        assert space.consolidate().found == {}


@pytest.mark.parametrize(
    "metadata",
    [
        ({"turn": 3}, {"turn": 40}),
        ({"timestamp": 1_731_000_000}, {"timestamp": 1_731_900_000}),
        ({"day": "2026-01-03"}, {"day": "2026-01-04"}),
        ({"score": 0.3}, {"score": 0.4}),
    ],
)
def test_when_and_where_something_was_noted_does_not(metadata: tuple[dict[str, object], ...]) -> None:
    with perdure.open(":memory:", memory="none") as db:
        space = db.memory("ana")
        for each in metadata:
            space.add("Status is green", metadata=each)
        assert space.consolidate().found == {"same": 1}


def test_what_happened_on_two_days_happened_twice() -> None:
    with perdure.open(":memory:", memory="none") as db:
        space = db.memory("ana")
        for day in ("2026-01-03", "2026-01-04", "2026-01-04"):
            space.add("Ran 5 km", memory_type="episode", metadata={"day": day})
        for step in (1, 2, 2):
            space.add("Swam a mile", memory_type="episode", metadata={"step": step})
        assert space.consolidate().found == {"same": 2}


YEAR = 365 * 86_400 * 1_000_000


@pytest.mark.parametrize("other", ["Ana lives in Porto", "Ana lives in Lisbon"])
@pytest.mark.parametrize(("begins", "ends"), [(-2, -1), (1, None)])
def test_what_is_over_or_to_come_takes_nothings_place(other: str, begins: int, ends: int | None) -> None:
    now = time.time_ns() // 1000
    with perdure.open(":memory:", memory="none") as db:
        space = db.memory("ana")
        kept = space.add("Ana lives in Lisbon", valid_from=now - 3 * YEAR)
        space.add(other, valid_from=now + begins * YEAR, valid_to=None if ends is None else now + ends * YEAR)
        space.consolidate()
        assert [found.memory.id for found in space.search("Where does Ana live?", at=now)] == [kept.id]


NARROWER = """I do not eat meat|I do not eat meat at work
Always encrypt backups|Always encrypt backups in production
Data must be encrypted|Data must be encrypted in transit
Never deploy|Never deploy on Fridays""".splitlines()


@pytest.mark.parametrize("kind", ["fact", "constraint"])
@pytest.mark.parametrize("pair", NARROWER)
def test_what_holds_everywhere_is_not_narrowed_down(pair: str, kind: str) -> None:
    with perdure.open(":memory:", memory="wordllama") as db:
        space = db.memory("ana")
        for note in pair.split("|"):
            space.add(note, memory_type=kind)
        space.consolidate()
        assert pair.split("|", maxsplit=1)[0] in [memory.content for memory in space.list()]


@pytest.mark.parametrize("other", ["I live in Berlin", "I live in Munich"])
def test_what_ends_soon_takes_the_place_of_nothing_that_lasts(other: str) -> None:
    soon = time.time_ns() // 1000 + 5 * 86_400 * 1_000_000
    with perdure.open(":memory:", memory="none") as db:
        space = db.memory("ana")
        kept = space.add("I live in Berlin")
        space.add(other, valid_to=soon)
        space.consolidate()
        assert [found.memory.id for found in space.search("Where do I live?", at=soon + 1)] == [kept.id]


def test_what_is_contrary_is_no_repetition_and_hands_nothing_on() -> None:
    with perdure.open(":memory:", memory="wordllama") as db:
        space = db.memory("ana")
        space.add("Always use tabs", importance=1.0)
        kept = space.add("Never use tabs", importance=0.2)
        space.consolidate()
        assert space.get(kept.id).importance == 0.2


def test_what_somebody_restores_is_as_it_was_and_stays() -> None:
    with perdure.open(":memory:", memory="none") as db:
        space = db.memory("ana")
        old = space.add("I live in Berlin")
        space.add("I live in Munich")
        assert space.consolidate().found == {"newer": 1}
        space.restore(old.id)
        assert space.get(old.id).valid_to is None
        assert space.consolidate().found == {}
        assert len(list(space.list())) == 2


DENYING_ELSE = """Tom is single|Tom is not married
Ana is a vegetarian|Ana does not eat meat
The door is locked|The door is not open
The server is down|The server is not up
Ken is unemployed|Ken has no job
Ana is allergic to nuts|Ana eats no nuts""".splitlines()


@pytest.mark.parametrize("embedder", ["none", "wordllama"])
@pytest.mark.parametrize("pair", DENYING_ELSE)
def test_what_denies_something_else_makes_nothing_untrue(pair: str, embedder: str) -> None:
    with perdure.open(":memory:", memory=embedder) as db:
        space = db.memory("ana")
        for note in pair.split("|"):
            space.add(note)
        assert "newer" not in space.consolidate().found


@pytest.mark.parametrize("embedder", ["none", "wordllama"])
@pytest.mark.parametrize("pair", ["Ana is married|Ana is not married", "Mia drives a car|Mia does not drive"])
def test_what_denies_just_that_does(pair: str, embedder: str) -> None:
    with perdure.open(":memory:", memory=embedder) as db:
        space = db.memory("ana")
        for note in pair.split("|"):
            space.add(note)
        assert space.consolidate().found == {"newer": 1}
