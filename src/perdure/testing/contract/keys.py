"""Claims about idempotency keys: what is remembered, for whom, and until when."""

import pytest

from perdure.core.errors import Invalid, VersionConflict
from perdure.ports.store import KeyTaken, Store
from perdure.testing.ambient import FixedAmbient
from perdure.testing.building import Builder, key_use, said
from perdure.testing.contract.looking import everything, grow, put, settle

HOSTILE_KEYS = ("'", '"; --', "%", "\x00", "k\x00", "ключ", "k" * 1000)


class Keys:
    """What a key promises."""

    async def test_an_unused_key_stands_for_nothing(self, store: Store, make: Builder) -> None:
        made = await put(store, make.create())
        assert await store.remembered(key_use("k")) is None
        assert await store.remembered(key_use("k", session=made.session)) is None

    async def test_a_creating_key_stands_for_the_session_it_made(self, store: Store, make: Builder) -> None:
        use = key_use("k", body=b"one")
        made = await put(store, make.create(said("hello"), key=use))
        found = await store.remembered(use)
        assert found is not None
        assert (found.fingerprint, found.session, found.first, found.last) == (use.fingerprint, made.session, 1, 2)

    async def test_a_repeated_key_is_answered_with_the_range_it_wrote(self, store: Store, make: Builder) -> None:
        made = await put(store, make.create())
        use = key_use("k", session=made.session)
        first = await put(store, make.append(made, said("a"), said("b"), key=use))
        with pytest.raises(KeyTaken) as taken:
            await store.append([make.append(first, key=use).commit])
        told = taken.value.remembered
        assert (told.fingerprint, told.session, told.first, told.last) == (use.fingerprint, made.session, 2, 3)

    async def test_a_repeated_key_is_noticed_before_a_stale_version(self, store: Store, make: Builder) -> None:
        made = await put(store, make.create())
        use = key_use("k", session=made.session)
        first = make.append(made, key=use)
        await put(store, first, make.append(first))
        with pytest.raises(KeyTaken):
            await store.append([first.commit])

    async def test_a_repeated_key_is_noticed_before_any_stale_version_of_the_same_append(
        self, store: Store, make: Builder
    ) -> None:
        made = make.create(key=key_use("k"))
        other = make.create()
        await put(store, made, other, make.append(other))
        with pytest.raises(KeyTaken):
            await store.append([make.append(other).commit, make.create(key=key_use("k")).commit])

    async def test_a_repeated_key_with_another_body_is_answered_with_the_first_one(
        self, store: Store, make: Builder
    ) -> None:
        made = await put(store, make.create(key=key_use("k", body=b"one")))
        with pytest.raises(KeyTaken) as taken:
            await store.append([make.create(key=key_use("k", body=b"two")).commit])
        assert taken.value.remembered.fingerprint != key_use("k", body=b"two").fingerprint
        assert taken.value.remembered.session == made.session
        first = await store.remembered(key_use("k", body=b"one"))
        assert first is not None
        assert first.fingerprint == key_use("k", body=b"one").fingerprint

    async def test_a_repeated_key_changes_nothing(self, store: Store, make: Builder) -> None:
        made = await put(store, make.create(key=key_use("k")))
        again = make.create(key=key_use("k"))
        before = await everything(store, [made, again], uses=[key_use("k")])
        with pytest.raises(KeyTaken):
            await store.append([again.commit])
        assert await everything(store, [made, again], uses=[key_use("k")]) == before

    async def test_a_key_belongs_to_one_principal(self, store: Store, make: Builder) -> None:
        mine, yours = key_use("k", principal="me"), key_use("k", principal="you")
        one = await put(store, make.create(key=mine))
        two = await put(store, make.create(key=yours))
        found = [await store.remembered(use) for use in (mine, yours)]
        assert [item and item.session for item in found] == [one.session, two.session]

    async def test_a_key_belongs_to_one_session(self, store: Store, make: Builder) -> None:
        one, two = make.create(), make.create()
        await put(store, one, two)
        for made in (one, two):
            await put(store, make.append(made, key=key_use("k", session=made.session)))
        found = [await store.remembered(key_use("k", session=made.session)) for made in (one, two)]
        assert [item and item.session for item in found] == [one.session, two.session]

    async def test_a_creating_key_and_a_key_of_the_session_do_not_meet(self, store: Store, make: Builder) -> None:
        made = await put(store, make.create(key=key_use("k")))
        await put(store, make.append(made, key=key_use("k", session=made.session)))
        created = await store.remembered(key_use("k"))
        appended = await store.remembered(key_use("k", session=made.session))
        assert created is not None
        assert appended is not None
        assert (created.first, appended.first) == (1, 2)

    async def test_a_key_of_a_refused_append_is_free_again(self, store: Store, make: Builder) -> None:
        made = make.create()
        last = await put(store, made, make.append(made))
        use = key_use("k", session=made.session)
        with pytest.raises(VersionConflict):
            await store.append([make.append(made, key=use).commit])
        assert await store.remembered(use) is None
        await put(store, make.append(last, key=use))
        assert await store.remembered(use) is not None

    async def test_two_commits_of_one_append_cannot_share_a_key(self, store: Store, make: Builder) -> None:
        twins = [make.create(key=key_use("k")) for _ in range(2)]
        with pytest.raises(Invalid):
            await store.append([twin.commit for twin in twins])
        assert [await store.head(twin.session) for twin in twins] == [None, None]
        assert await store.remembered(key_use("k")) is None

    async def test_of_many_requests_with_one_key_exactly_one_lands(self, store: Store, make: Builder) -> None:
        rivals = [make.create(key=key_use("k")) for _ in range(32)]
        outcomes = await settle(store, (rival.commit for rival in rivals))
        won = [rival for rival, outcome in zip(rivals, outcomes, strict=True) if isinstance(outcome, int)]
        lost = [outcome for outcome in outcomes if not isinstance(outcome, int)]
        assert len(won) == 1
        assert all(isinstance(error, KeyTaken) for error in lost)
        assert {error.remembered.session for error in lost if isinstance(error, KeyTaken)} == {won[0].session}

    async def test_keys_are_remembered_for_the_life_of_the_session(
        self, store: Store, make: Builder, ambient: FixedAmbient
    ) -> None:
        made = await put(store, make.create(key=key_use("k")))
        ambient.advance(400 * 86_400)
        await put(store, *grow(make, made, 3))
        assert await store.remembered(key_use("k")) is not None

    async def test_keys_die_with_their_session(self, store: Store, make: Builder, ambient: FixedAmbient) -> None:
        made = await put(store, make.create(key=key_use("k")))
        use = key_use("k", session=made.session)
        await put(store, make.append(made, key=use))
        await store.erase(made.session, ambient.now())
        assert [await store.remembered(item) for item in (key_use("k"), use)] == [None, None]
        await put(store, make.create(key=key_use("k")))

    @pytest.mark.parametrize("text", HOSTILE_KEYS)
    async def test_any_text_can_be_a_key(self, store: Store, make: Builder, text: str) -> None:
        use = key_use(text, principal=text)
        made = await put(store, make.create(key=use))
        found = await store.remembered(use)
        assert found is not None
        assert found.session == made.session
        assert await store.remembered(key_use(text + " ", principal=text)) is None
