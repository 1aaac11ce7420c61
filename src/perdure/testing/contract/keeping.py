"""Claims about the streams of running turns, which are kept beside the log."""

from perdure.core.session import record
from perdure.core.session.event import draft
from perdure.ports.store import Kept, Store
from perdure.testing.ambient import FixedAmbient
from perdure.testing.building import Builder, Made, said
from perdure.testing.contract.looking import all_of, everything, grow, put

NODE = "node-1"
UNTIL = 5_000_000


async def stream(store: Store, made: Made, *pieces: bytes, turn: int = 1, node: str = NODE, until: int = UNTIL) -> None:
    """Keep pieces of a turn's stream, one behind the other."""
    offset = 0
    for data in pieces:
        await store.keep(made.session, turn, node=node, until=until, offset=offset, data=data)
        offset += len(data)


async def pieces_of(store: Store, made: Made, turn: int = 1, after: int = 0) -> tuple[tuple[int, bytes], ...] | None:
    """The pieces that are kept; None when nothing is."""
    found = await store.kept(made.session, turn, after)
    return None if found is None else found.pieces


class Streaming:
    """What keeping a stream promises."""

    async def test_what_is_kept_of_a_stream_comes_back_in_order(self, store: Store, make: Builder) -> None:
        made = await put(store, make.create())
        for offset, data in ((3, b"de"), (0, b"abc"), (5, b"f" * 5000)):
            await store.keep(made.session, 7, node=NODE, until=UNTIL, offset=offset, data=data)
        pieces = ((0, b"abc"), (3, b"de"), (5, b"f" * 5000))
        assert await store.kept(made.session, 7) == Kept(turn=7, node=NODE, until=UNTIL, pieces=pieces)

    async def test_only_pieces_that_end_after_an_offset_are_told(self, store: Store, make: Builder) -> None:
        made = await put(store, make.create())
        await stream(store, made, b"abc", b"de", b"f")
        assert await pieces_of(store, made, after=2) == ((0, b"abc"), (3, b"de"), (5, b"f"))
        assert await pieces_of(store, made, after=3) == ((3, b"de"), (5, b"f"))
        assert await pieces_of(store, made, after=5) == ((5, b"f"),)
        assert await pieces_of(store, made, after=6) == await pieces_of(store, made, after=100) == ()

    async def test_a_stream_that_begins_later_is_told_from_there(self, store: Store, make: Builder) -> None:
        made = await put(store, make.create())
        await store.keep(made.session, 1, node=NODE, until=UNTIL, offset=10, data=b"late")
        assert await pieces_of(store, made) == await pieces_of(store, made, after=13) == ((10, b"late"),)
        assert await pieces_of(store, made, after=14) == ()

    async def test_a_piece_at_the_same_offset_is_replaced(self, store: Store, make: Builder) -> None:
        made = await put(store, make.create())
        await stream(store, made, b"ab", b"cd")
        await store.keep(made.session, 1, node=NODE, until=UNTIL, offset=2, data=b"CDEF")
        assert await pieces_of(store, made) == ((0, b"ab"), (2, b"CDEF"))
        assert await pieces_of(store, made, after=4) == ((2, b"CDEF"),)
        await store.keep(made.session, 1, node=NODE, until=UNTIL, offset=2, data=b"C")
        assert await pieces_of(store, made, after=2) == ((2, b"C"),)
        assert await pieces_of(store, made, after=3) == ()

    async def test_empty_data_only_says_who_runs_the_turn_and_until_when(self, store: Store, make: Builder) -> None:
        made = await put(store, make.create())
        await store.keep(made.session, 1, node=NODE, until=10, offset=0, data=b"")
        assert await store.kept(made.session, 1) == Kept(turn=1, node=NODE, until=10, pieces=())
        await stream(store, made, b"ab")
        await store.keep(made.session, 1, node="another \0 node", until=99, offset=0, data=b"")
        assert await store.kept(made.session, 1) == Kept(turn=1, node="another \0 node", until=99, pieces=((0, b"ab"),))

    async def test_every_piece_says_so_too(self, store: Store, make: Builder) -> None:
        made = await put(store, make.create())
        await stream(store, made, b"ab", until=10)
        await store.keep(made.session, 1, node="other", until=20, offset=2, data=b"cd")
        assert await store.kept(made.session, 1) == Kept(
            turn=1, node="other", until=20, pieces=((0, b"ab"), (2, b"cd"))
        )

    async def test_nothing_is_kept_of_what_nobody_streamed(self, store: Store, make: Builder) -> None:
        made = await put(store, make.create())
        assert await store.kept(made.session, 1) is None
        await stream(store, made, b"ab", turn=2)
        assert await store.kept(made.session, 1) is None
        assert await store.kept(make.create().session, 2) is None

    async def test_sessions_and_turns_are_kept_apart(self, store: Store, make: Builder) -> None:
        one, two = await put(store, make.create()), await put(store, make.create())
        await stream(store, one, b"one")
        await stream(store, one, b"later", turn=2, node="n2")
        await stream(store, two, b"two", node="n3")
        assert await pieces_of(store, one) == ((0, b"one"),)
        assert await store.kept(one.session, 2) == Kept(turn=2, node="n2", until=UNTIL, pieces=((0, b"later"),))
        assert await store.kept(two.session, 1) == Kept(turn=1, node="n3", until=UNTIL, pieces=((0, b"two"),))

    async def test_letting_go_forgets_turns_up_to_one(self, store: Store, make: Builder) -> None:
        one, two = await put(store, make.create()), await put(store, make.create())
        for turn in (1, 2, 3):
            await stream(store, one, b"text", turn=turn)
        await stream(store, two, b"text")
        await store.let_go(one.session, 2)
        assert [await pieces_of(store, one, turn) for turn in (1, 2, 3)] == [None, None, ((0, b"text"),)]
        assert await pieces_of(store, two) == ((0, b"text"),)

    async def test_letting_go_of_nothing_does_no_harm(self, store: Store, make: Builder) -> None:
        made = await put(store, make.create())
        await store.let_go(made.session, 9)
        await store.let_go(make.create().session, 9)
        await stream(store, made, b"text", turn=10)
        await store.let_go(made.session, 9)
        assert await pieces_of(store, made, 10) == ((0, b"text"),)

    async def test_a_stream_is_no_part_of_the_log(self, store: Store, make: Builder) -> None:
        made = await put(store, make.create())
        before = await everything(store, [made])
        await stream(store, made, b"text", b"more")
        assert await everything(store, [made]) == before
        await store.let_go(made.session, 1)
        assert await everything(store, [made]) == before
        await put(store, make.append(made))

    async def test_erasing_drops_what_is_kept(self, store: Store, make: Builder, ambient: FixedAmbient) -> None:
        made, other = await put(store, make.create()), await put(store, make.create())
        await stream(store, made, b"secret")
        await stream(store, other, b"text")
        assert await store.erase(made.session, ambient.now())
        assert await store.kept(made.session, 1) is None
        await put(store, make.create(session=made.session))
        assert await store.kept(made.session, 1) is None
        assert await pieces_of(store, other) == ((0, b"text"),)

    async def test_nothing_is_kept_for_a_session_that_is_gone(
        self, store: Store, make: Builder, ambient: FixedAmbient
    ) -> None:
        made, never = await put(store, make.create()), make.create()
        await store.erase(made.session, ambient.now())
        await stream(store, made, b"late")
        await stream(store, never, b"early")
        await put(store, make.create(session=made.session), never)
        assert await store.kept(made.session, 1) is await store.kept(never.session, 1) is None

    async def test_an_id_used_anew_keeps_streams_of_its_own(
        self, store: Store, make: Builder, ambient: FixedAmbient
    ) -> None:
        made = await put(store, make.create())
        await stream(store, made, b"old")
        await store.erase(made.session, ambient.now())
        await put(store, make.create(session=made.session))
        await stream(store, made, b"new")
        assert await pieces_of(store, made) == ((0, b"new"),)

    async def test_a_stream_does_not_stand_in_the_way_of_pruning(self, store: Store, make: Builder) -> None:
        made = make.create()
        log = [made, *grow(make, made, 3)]
        await put(store, *log)
        await stream(store, made, b"text")
        await store.prune(made.session, log[1].version, log[1].digest, log[1].snapshot)
        assert await pieces_of(store, made) == ((0, b"text"),)

    async def test_what_is_kept_does_not_go_to_cold_storage(self, store: Store, make: Builder) -> None:
        made = await put(store, make.create())
        await stream(store, made, b"text")
        await store.freeze(made.session, "cold://1", expected=made.digest)
        assert await store.kept(made.session, 1) is None

    async def test_a_rewrite_forgets_what_was_streamed_in_the_turn(self, store: Store, make: Builder) -> None:
        made = make.create()
        secret = make.append(made, draft(said("secret"), turn=1), draft(said("kept"), turn=2))
        await put(store, made, secret)
        for turn in (1, 2):
            await stream(store, made, b"secret", turn=turn)
        blanked = record.redact(secret.commit.record, frozenset({made.version + 1}))
        await put(store, make.append(secret, said("redacted"), rewrites=(blanked,)))
        assert await store.kept(made.session, 1) == Kept(turn=1, node=NODE, until=UNTIL, pieces=())
        assert await pieces_of(store, made, 2) == ((0, b"secret"),)

    async def test_many_are_kept_at_once_beside_appends(self, store: Store, make: Builder) -> None:
        made = [await put(store, make.create()) for _ in range(8)]
        keeping = [stream(store, each, b"a", b"bc", b"def", node=each.session) for each in made]
        outcomes = await all_of([*keeping, *(store.append([make.append(each).commit]) for each in made)])
        assert [outcome for outcome in outcomes if isinstance(outcome, BaseException)] == []
        for each in made:
            pieces = ((0, b"a"), (1, b"bc"), (3, b"def"))
            assert await store.kept(each.session, 1) == Kept(turn=1, node=each.session, until=UNTIL, pieces=pieces)
