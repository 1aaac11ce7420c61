"""The same sentence with another value and `now` in it."""

import pytest

from perdure.core.memory.comparing import turned
from perdure.core.memory.statements import read

TURNED = [
    ("Tomas Sato reports to Noor Dube.", "Tomas Sato reports to Elif Haddad now."),
    ("The relay is deployed with Jenkins.", "The relay is deployed with Argo CD now."),
    ("The user prefers Google Docs for time tracking.", "The user now prefers Todoist for time tracking."),
    ("Fairmont Shipping is invoiced in pounds sterling.", "Fairmont Shipping is invoiced in Swiss francs from now on."),
    ("Ben currently works on the night shift.", "Ben now works on the day shift."),
]
APART = [
    ("Tomas Sato reports to Noor Dube.", "Tomas Sato reports to Elif Haddad."),
    ("Ana likes jazz.", "Ana now likes tango."),
    ("Ana speaks French fluently.", "Ana now speaks Danish fluently."),
    ("The Growth team owns the dispatcher.", "The Growth team now owns the proxy."),
    ("The user prefers Excel for travel booking.", "The user now prefers Excel for language practice."),
    ("Ben works in Berlin.", "Ben works for Globex now."),
    ("Ben works with Ana.", "Ben now works also with Kim."),
    ("The shuttle crosses the river 5 times.", "The shuttle now runs every 12 minutes."),
    ("The message broker in Kelp is SQS.", "The message broker in Hazel is now Kafka."),
    ("Only testers can use the Glacier project.", "Only testers can use the Kestrel project for now."),
    ("There are 6 prod instances of the worker.", "There are now 6 prod instances of the loader."),
    ("Ana Weber reports to Kim.", "Ben Weber reports to Lou now."),
    ("The team meets on Mondays.", "The team meets Kim now."),
    ("Ana bought shares of Globex.", "Ana now bought shares of Initech."),
]


@pytest.mark.parametrize(("older", "newer"), TURNED)
def test_the_same_with_another_value_now_is_no_longer_so(older: str, newer: str) -> None:
    assert turned(read(older), read(newer))
    assert not turned(read(newer), read(older))


@pytest.mark.parametrize(("older", "newer"), APART)
def test_now_alone_makes_nothing_untrue(older: str, newer: str) -> None:
    assert not turned(read(older), read(newer))
