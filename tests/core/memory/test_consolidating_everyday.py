"""Everyday notes: what rules alone make of two of them, the second written down a week after the first."""

import pytest

from perdure.core.memory.consolidating import planned
from perdure.core.memory.importance import DAY
from perdure.core.memory.parts import Memory, MemoryType

NOW = 1_000 * DAY
SAME = [
    ("User's name is Maria", "The user is called Maria"),
    ("The user is allergic to peanuts", "User has a peanut allergy"),
    ("Max drawdown tolerance is 15%", "Maximum drawdown tolerance: 15 percent"),
    (
        "Gas fees on Ethereum mainnet spike on weekday mornings",
        "Gas fees spike on weekday mornings on Ethereum mainnet",
    ),
    ("The user owns a golden retriever named Max", "User has a golden retriever called Max"),
    ("The meeting with Carol takes place every Tuesday at 10am", "Every Tuesday at 10am there is a meeting with Carol"),
    ("User wants reports in PDF format", "The user would like reports in PDF format"),
    ("Server backups run nightly at 02:00 UTC", "Server backups are run every night at 2:00 UTC"),
    ("ETH/USDC pool on Uniswap v3 has a fee tier of 0.3%", "The fee tier of the Uniswap v3 ETH/USDC pool is 0.30%"),
    ("User lives in Paris", "User currently lives in Paris, France"),
    ("Deployment region is eu-west-1", "The deployment region: eu-west-1"),
    ("The project deadline is 2026-05-01", "Project deadline: May 1, 2026"),
    ("User dislikes cilantro", "User does not like cilantro"),
    ("customer 1881 prefers email contact", "Customer 1881 prefers to be contacted by email"),
    ("The wifi password is hunter2", "Wifi password: hunter2"),
    ("Alice's birthday is June 3", "Alice was born on June 3"),
    ("User has two kids", "The user has 2 children"),
    ("Sarah is a vegetarian", "Sarah is vegetarian"),
    ("Compound v3 liquidations happen at 85% LTV", "Liquidations on Compound v3 happen at an LTV of 85%"),
    ("The staging database is hosted in Frankfurt", "Staging database hosted in Frankfurt"),
    ("User's monthly budget for groceries is $400", "The user's grocery budget is 400 dollars a month"),
    ("Tom's flight to Tokyo leaves at 9am on Friday", "On Friday at 9am Tom's flight to Tokyo leaves"),
    ("The user enjoys hiking in the mountains", "User loves hiking in the mountains"),
    ("User purchased a Tesla Model 3 in 2023", "In 2023, the user bought a Tesla Model 3"),
    (
        "Never trade more than 5% of the portfolio at once",
        "Do not ever trade more than 5 percent of the portfolio at once",
    ),
    ("Support tickets must be answered within 24 hours", "Support tickets must be answered within 24h"),
    ("Ben is Laura's brother", "Laura's brother is Ben"),
    ("The user's laptop runs Ubuntu 22.04", "User's laptop is running Ubuntu 22.04"),
    ("Lido stETH APR is 3.4%", "stETH on Lido has an APR of 3.4%"),
    ("The client asked for weekly status emails", "Client requested weekly status emails"),
    ("User's cat is named Milo", "User has a cat named Milo"),
    ("Mainnet gas averaged 25 gwei last week", "Last week mainnet gas averaged 25 gwei"),
    ("The user has a meeting with Dr. Lee on 2026-04-02", "User has a meeting with Dr. Lee on April 2, 2026"),
    ("Redis cache TTL is 300 seconds", "The TTL of the Redis cache is 300s"),
]
NEWER = [
    ("User lives in Paris", "User has moved to Berlin"),
    ("User's favorite color is blue", "User's favorite color is now green"),
    ("ETH price is $3,200", "ETH price is $2,950"),
    ("User prefers tea", "User now prefers coffee"),
    ("User prefers tea over coffee", "User prefers coffee over tea"),
    ("User works at Google", "User left Google and now works at Meta"),
    ("User is vegetarian", "User is no longer vegetarian"),
    ("The API rate limit is 100 requests per minute", "The API rate limit is 250 requests per minute"),
    ("Project deadline is May 1", "Project deadline moved to June 15"),
    ("Aave USDC supply APY is 4.2%", "Aave USDC supply APY dropped to 3.8%"),
    ("User's phone number is 555-1234", "User's phone number is 555-9876"),
    ("User's email is a@x.com", "User's email is b@y.com"),
    ("Risk tolerance: low", "Risk tolerance: high"),
    ("User is single", "User is married"),
    ("The CEO of Acme is John Smith", "The CEO of Acme is Jane Doe"),
    ("User uses Python 3.9", "User uses Python 3.12"),
    ("Default slippage is set to 0.5%", "Default slippage changed to 1%"),
    ("User has 2 children", "User has 3 children"),
    ("customer 1881 prefers email contact", "customer 1881 prefers phone contact"),
    ("TVL of pool A is 12.5M USD", "TVL of pool A is 14.1M USD"),
    ("User's timezone is CET", "User's timezone is PST"),
    ("Subscription plan is basic", "Subscription plan is premium"),
    ("Lido stETH APR is 3.4%", "stETH APR on Lido is now 2.9%"),
    ("Redis cache TTL is 300 seconds", "Redis cache TTL is 600 seconds"),
    ("Sarah is vegetarian", "Sarah is vegan now"),
    ("Sarah lives in Boston", "Sarah relocated to Denver"),
    ("Tom works for IBM", "Tom now works for Oracle"),
    ("The user's laptop runs Ubuntu 22.04", "The user's laptop runs Ubuntu 24.04"),
    ("Weekly sync is on Thursday", "Weekly sync is now on Tuesday"),
    ("Notifications are enabled", "Notifications are disabled"),
    ("The user's preferred language is English", "The user's preferred language is French"),
    ("User wants daily summaries", "User wants weekly summaries"),
    ("The team lead is Priya", "The team lead is now Marco"),
    ("Bitcoin is trading at $61,000", "Bitcoin is trading at $58,500"),
    ("Health factor target is 1.8", "Health factor target is 2.2"),
    ("Laura's address is 12 Oak Street", "Laura's address is 98 Pine Avenue"),
    ("User's subscription is on the free tier", "User's subscription is on the premium tier"),
    ("Ben weighs 82 kg", "Ben weighs 78 kg"),
    ("User likes horror movies", "User doesn't like horror movies anymore"),
    ("The store opens at 9am", "The store opens at 10am"),
    ("Minimum order value is 50 EUR", "Minimum order value is 75 EUR"),
    ("User is 34 years old", "User is 35 years old"),
    ("The current sprint ends on June 5", "The current sprint ends on June 19"),
    ("The password rotation period is 90 days", "The password rotation period is 60 days"),
]
APART = [
    ("User likes Italian food", "User likes Thai food"),
    ("User speaks French", "User speaks German"),
    ("User visited Rome in 2019", "User visited Rome in 2021"),
    ("Agent 42 completed task 7", "Agent 42 completed task 8"),
    ("User bought 2 ETH at $3000", "User bought 3 ETH at $3100"),
    ("Alice is Bob's sister", "Bob is Alice's brother"),
    ("Server A has 16 GB of RAM", "Server B has 32 GB of RAM"),
    ("Pool ETH/USDC fee is 0.3%", "Pool ETH/DAI fee is 0.05%"),
    ("User's dog is named Rex", "User's cat is named Tom"),
    ("User's daughter is 5", "User's son is 7"),
    ("Meeting on Monday covered budget", "Meeting on Tuesday covered budget"),
    ("The red car is fast", "The blue car is fast"),
    ("User works at Google", "User works remotely"),
    ("User prefers aisle seats", "User prefers quiet hotels"),
    ("Fact 12: the value of item 12 is 88", "Fact 13: the value of item 13 is 91"),
    ("User 17's favorite color is blue", "User 18's favorite color is red"),
    ("User ran 5 km on Monday", "User ran 8 km on Tuesday"),
    ("Memory 101 about topic alpha", "Memory 102 about topic alpha"),
    ("Chapter 3 has 20 pages", "Chapter 4 has 25 pages"),
    ("Item 7 costs $5", "Item 8 costs $6"),
    ("DCA on ETH over 30 days outperformed by 12%", "DCA on BTC over 30 days outperformed by 9%"),
    ("User is a doctor", "User is a father"),
    ("The API has 3 endpoints", "The API has 2 versions"),
    ("Order #123 was shipped", "Order #124 was shipped"),
    ("Sarah is vegetarian", "Sarah is left-handed"),
    ("Tom's flight leaves at 9am on Friday", "Tom's flight leaves at 6pm on Sunday"),
    ("Ben is Laura's brother", "Ben is Laura's colleague"),
    ("User paid $40 for lunch", "User paid $65 for dinner"),
    ("Lido stETH APR is 3.4%", "Rocket Pool rETH APR is 2.9%"),
    ("The user speaks Spanish", "The user speaks Italian"),
    ("Laura has a cat", "Laura has a dog"),
    ("Invoice 881 is due on June 5", "Invoice 882 is due on June 9"),
    ("Node 3 uses 40% CPU", "Node 4 uses 70% CPU"),
    ("Ana sent 5 ETH to Ben", "Ben sent 5 ETH to Ana"),
    ("The kitchen is painted green", "The bedroom is painted white"),
    ("User wants daily summaries", "User wants a standing desk"),
    ("Alpha team has 5 members", "Beta team has 7 members"),
    ("The user likes jazz", "The user likes jazz festivals"),
    ("Version 1.2 fixed the login bug", "Version 1.3 fixed the export bug"),
    ("Trade 5 lost 2%", "Trade 6 lost 3%"),
    ("Bitcoin is trading at $61,000", "Ether is trading at $3,000"),
    ("Tom met Ana in Rome", "Tom met Ana in Paris"),
    ("User's mother lives in Rome", "User lives in Milan"),
    ("The first alarm is at 7am", "The second alarm is at 8am"),
]


def found(one: str, other: str) -> list[tuple[str, str, str]]:
    """The steps that two notes lead to."""
    told = [
        Memory(id=id, type=MemoryType.FACT, content=text, recorded_at=NOW - days * DAY, version=10 - days)
        for id, text, days in (("one", one, 8), ("other", other, 1))
    ]
    steps = planned("newer", told, NOW).steps or planned("same", told, NOW).steps
    return [(step.phase, step.id, step.by) for step in steps]


@pytest.mark.parametrize(("one", "other"), SAME)
def test_of_two_notes_that_say_the_same_one_stays(one: str, other: str) -> None:
    assert found(one, other) in ([("same", "one", "other")], [("same", "other", "one")])


@pytest.mark.parametrize(("one", "other"), NEWER)
def test_a_note_that_is_no_longer_true_gives_way(one: str, other: str) -> None:
    assert found(one, other) == [("newer", "one", "other")]


@pytest.mark.parametrize(("one", "other"), APART)
def test_notes_of_different_things_are_left_alone(one: str, other: str) -> None:
    assert found(one, other) == []
