"""In a space of few memories consolidation is careful: what is plainly about two things stays."""

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
A visit to the plant is scheduled for 3 May|A visit to the plant is scheduled for 9 May""".splitlines()


@pytest.mark.parametrize("embedder", ["none", "wordllama"])
@pytest.mark.parametrize("pair", APART)
def test_two_that_are_plainly_about_two_things_are_left_alone(pair: str, embedder: str) -> None:
    for notes in (pair.split("|"), pair.split("|")[::-1]):
        with perdure.open(":memory:", memory=embedder) as db:
            space = db.memory("ana")
            for note in notes:
                space.add(note)
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
    ],
)
def test_what_is_plainly_about_one_thing_is_settled_among_few_too(pair: str, embedder: str) -> None:
    with perdure.open(":memory:", memory=embedder) as db:
        space = db.memory("ana")
        for note in pair.split("|"):
            space.add(note)
        space.consolidate()
        assert len(list(space.list())) == 1
