"""A conversation of thousands of turns with a provider whose window is small: it never overflows, what is preserved is
exact, and a turn late in it costs what a turn costs early in it.
"""

import os
from pathlib import Path
from statistics import mean

from perdure.compose import embedded
from perdure.compose.talking import Common, Talk
from perdure.core.session.turns import Compacted
from perdure.core.talk.prices import read
from perdure.core.talk.routes import Models, Upstream
from perdure.core.talk.turning import TurnRequest
from perdure.edge.library import AsyncPerdure
from perdure.services.calling import Calling
from perdure.services.desk import TurnSettings
from perdure.services.pricing import Pricing
from upstream.server import serving

TURNS = 2_000 if os.environ.get("PERDURE_LONG") else 240
WINDOW = 4_000
MODEL = f"tokens-40+window-{WINDOW}"
PRICES = read(
    {
        "as_of": "2026-11-01",
        "prices": [
            {
                "provider": "up",
                "models": ["*"],
                "rates": {"input": 1_000_000, "output": 2_000_000, "cache_read": 100_000, "cache_write": 1_000_000},
                "window": WINDOW,
                "max_output": 400,
            }
        ],
    }
)
PLANTED = {
    3: "The vault is 0x52908400098527886E0F7030069857D2E4169EE7 on Base.",
    17: "preserve: the limit is exactly 1234.5678 USDC",
    40: "Decision: we rebalance at a drawdown of 7.25 % and never above it.",
}
EXACT = ("0x52908400098527886E0F7030069857D2E4169EE7", "1234.5678 USDC", "7.25 %")


async def test_a_long_talk_stays_within_a_small_window(tmp_path: Path) -> None:
    async with serving() as server:
        upstream = Upstream(name="up", kind="anthropic", base_url=server.url, key="k", retries=0)
        models = Models(upstreams={"up": upstream}, default=f"up/{MODEL}", cheap=f"up/{MODEL}")
        services = embedded(tmp_path / "long.db")
        common = Common(Talk(models=models, settings=TurnSettings(max_tokens=100)), services.sessions.ambient)
        common.prices, common.pricing = PRICES, Pricing(PRICES)
        common.calling = Calling(models, common.ambient, prices=PRICES)
        services.common_of = lambda: common
        db = AsyncPerdure(services)
        compaction = {"threshold": 0.8, "keep_last": 4, "strategy": "extractive", "preserve": "defi"}
        session = await db.create("long", config={"compaction": compaction, "max_cost": 10**12})
        costs = []
        for number in range(TURNS):
            words = PLANTED.get(number, f"Question {number}: what should we look at next, and why that one?")
            outcome = await services.talking.run(session.id, TurnRequest(content=words))
            assert outcome.status == "finished"
            costs.append(outcome.cost)
        assert server.counts.requests == TURNS  # none was refused for its length
        compactions = [event.data for event in await session.events() if isinstance(event.data, Compacted)]
        assert len(compactions) > TURNS / 60
        kept = str(compactions[-1].preserved)
        assert [value for value in EXACT if value not in kept] == []
        asked = server.seen[-1].body["messages"][0]["content"]
        assert [value for value in EXACT if value not in str(asked)] == []
        early, late = costs[TURNS // 10 : TURNS // 5], costs[-TURNS // 10 :]
        assert 0.7 < mean(late) / mean(early) < 1.4, (mean(early), mean(late))
        await services.quiet()
        await common.close()
        await db.close()
