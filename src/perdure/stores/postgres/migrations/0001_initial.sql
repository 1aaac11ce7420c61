-- The first format. Text that PostgreSQL cannot hold (a NUL) is kept escaped, as texts.py says; times are microseconds
-- since 1970, UTC. What may be long is never indexed itself, but by its SHA-256: an index entry has its limits.

CREATE SCHEMA IF NOT EXISTS perdure;

CREATE TABLE perdure.setting (
    name  text PRIMARY KEY,
    value text NOT NULL
);

-- A note that a transaction leaves: the writer's id and the transaction's number with it. If the answer to its commit is
-- lost, the note tells whether it was made.
CREATE TABLE perdure.writer (
    id     bytea       NOT NULL PRIMARY KEY,
    number bigint      NOT NULL,
    at     timestamptz NOT NULL DEFAULT now()
) WITH (fillfactor = 50);

-- `activity` is last_active_at in steps of 2^26 µs (67 s), so that most appends leave every index alone. `marks` are the
-- hashes of tags and metadata that `find` asks for; `metadata` is there for people, `labels` is what was written, exactly.
-- `salt` names the session's salt in the vault, `card` holds title, tags and metadata sealed; both are NULL in a session
-- that is kept in the clear. `cold` says where an archived session's log lies.
CREATE TABLE perdure.session (
    no              bigint   GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    session_id      uuid     NOT NULL UNIQUE,
    schema_version  text     NOT NULL,
    state_version   bigint   NOT NULL,
    digest          bytea    NOT NULL,
    lifecycle_phase text     NOT NULL,
    tenant          text     NOT NULL,
    owner_id        text     NOT NULL,
    title           text     NOT NULL,
    folded          text     NOT NULL,
    created_at      bigint   NOT NULL,
    last_active_at  bigint   NOT NULL,
    activity        bigint   NOT NULL,
    expires_at      bigint,
    due_at          bigint,
    turns           bigint   NOT NULL,
    open_turn       bigint,
    parent          uuid,
    branch_kind     text,
    branched_at     bigint,
    account         text,
    metadata        jsonb    NOT NULL,
    labels          text     NOT NULL,
    marks           bytea[]  NOT NULL,
    salt            bytea,
    card            bytea,
    cold            text,
    anchor_version  bigint   NOT NULL DEFAULT 0,
    anchor_digest   bytea
) WITH (fillfactor = 70);

CREATE INDEX session_created  ON perdure.session (tenant, created_at DESC, session_id DESC);
CREATE INDEX session_active   ON perdure.session (tenant, activity DESC);
CREATE INDEX session_owner    ON perdure.session (tenant, left(owner_id, 128), created_at DESC);
CREATE INDEX session_phase    ON perdure.session (tenant, lifecycle_phase, created_at DESC);
CREATE INDEX session_parent   ON perdure.session (parent) WHERE parent IS NOT NULL;
CREATE INDEX session_expires  ON perdure.session (expires_at) WHERE expires_at IS NOT NULL;
CREATE INDEX session_due      ON perdure.session (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX session_open     ON perdure.session (tenant, open_turn) WHERE open_turn IS NOT NULL;
CREATE INDEX session_marks    ON perdure.session USING gin (marks);
CREATE INDEX session_metadata ON perdure.session USING gin (metadata jsonb_path_ops);

-- The change feed is this table in order of position. An erased session leaves one row of session 0 with its id as the
-- digest and the time of its end as the body. A record is compressed or sealed already: no second try, and no detour
-- for one that fits into a page.
CREATE SEQUENCE perdure.position;

CREATE TABLE perdure.record (
    position bigint NOT NULL PRIMARY KEY,
    session  bigint NOT NULL,
    first    bigint NOT NULL,
    last     bigint NOT NULL,
    digest   bytea  NOT NULL,
    body     bytea  NOT NULL,
    copied   boolean
) WITH (toast_tuple_target = 8160);

ALTER TABLE perdure.record ALTER COLUMN body SET STORAGE EXTERNAL;

CREATE UNIQUE INDEX record_place ON perdure.record (session, first);
CREATE INDEX record_copies ON perdure.record (first) WHERE copied;

CREATE TABLE perdure.segment (
    session bigint NOT NULL,
    ordinal bigint NOT NULL,
    source  bigint NOT NULL,
    origin  uuid   NOT NULL,
    upto    bigint NOT NULL,
    digest  bytea  NOT NULL,
    PRIMARY KEY (session, ordinal)
);

CREATE INDEX segment_source ON perdure.segment (source);

CREATE TABLE perdure.snapshot (
    session    bigint NOT NULL,
    version    bigint NOT NULL,
    state_blob bytea  NOT NULL,
    checksum   bytea  NOT NULL,
    PRIMARY KEY (session, version)
);

ALTER TABLE perdure.snapshot ALTER COLUMN state_blob SET STORAGE EXTERNAL;

CREATE TABLE perdure.checkpoint (
    id          text    NOT NULL PRIMARY KEY,
    session     bigint  NOT NULL,
    seq         bigint  NOT NULL,
    version     bigint  NOT NULL,
    label       text    NOT NULL,
    "trigger"   text    NOT NULL,
    is_full     boolean NOT NULL,
    base        bigint,
    payload     bytea   NOT NULL,
    payload_sha bytea   NOT NULL,
    state_sha   bytea   NOT NULL,
    at          bigint  NOT NULL,
    expires_at  bigint,
    pinned      boolean NOT NULL,
    metadata    text    NOT NULL
);

ALTER TABLE perdure.checkpoint ALTER COLUMN payload SET STORAGE EXTERNAL;
CREATE UNIQUE INDEX checkpoint_place ON perdure.checkpoint (session, seq);

-- `scope` is 0 for a key that created its session; `mark` is the hash of principal and key.
CREATE TABLE perdure.idempotency (
    scope       bigint NOT NULL,
    mark        bytea  NOT NULL,
    fingerprint bytea  NOT NULL,
    session     bigint NOT NULL,
    first       bigint NOT NULL,
    last        bigint NOT NULL,
    PRIMARY KEY (scope, mark)
);

CREATE INDEX idempotency_session ON perdure.idempotency (session);

-- `mark` is the hash of the id.
CREATE TABLE perdure.account (
    mark     bytea   NOT NULL PRIMARY KEY,
    id       text    NOT NULL,
    cap      bigint,
    spent    bigint  NOT NULL,
    reserved bigint  NOT NULL,
    paused   boolean NOT NULL
) WITH (fillfactor = 70);

CREATE TABLE perdure.cursor (
    name     text   PRIMARY KEY,
    position bigint NOT NULL
);

-- The words of the records up to the cursor `words`.
CREATE TABLE perdure.word (
    position bigint NOT NULL PRIMARY KEY,
    words    text[] NOT NULL
);

CREATE INDEX word_words ON perdure.word USING gin (words);

-- Blobs, in chunks, beside the log. `address` is a keyed hash of tenant and content; an upload has none yet. Without
-- `touched_at` a row is on its way out. A use is the version of an event, in a session's own rows, and the address it
-- points to, whether that is here or not.
CREATE TABLE perdure.blob (
    no         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    blob_id    bytea  NOT NULL UNIQUE,
    tenant     text   NOT NULL,
    address    text   UNIQUE,
    salt       bytea,
    card       bytea  NOT NULL,
    size       bigint NOT NULL,
    created_at bigint NOT NULL,
    touched_at bigint
);

CREATE INDEX blob_created ON perdure.blob (tenant, created_at DESC, blob_id DESC) WHERE address IS NOT NULL;
CREATE INDEX blob_touched ON perdure.blob (touched_at);

CREATE TABLE perdure.blob_chunk (
    blob   bigint NOT NULL,
    number bigint NOT NULL,
    body   bytea  NOT NULL,
    PRIMARY KEY (blob, number)
);

ALTER TABLE perdure.blob_chunk ALTER COLUMN body SET STORAGE EXTERNAL;

CREATE TABLE perdure.blob_use (
    session bigint NOT NULL,
    version bigint NOT NULL,
    address text   NOT NULL,
    PRIMARY KEY (session, version, address)
);

CREATE INDEX blob_use_address ON perdure.blob_use (address);

-- The session table as other tools may want to read it: state_version is the head, state_blob the latest snapshot.
CREATE VIEW perdure.sessions AS
SELECT s.session_id, s.schema_version, s.state_version, n.version AS snapshot_version, n.state_blob, n.checksum,
       s.lifecycle_phase, s.owner_id,
       timestamptz 'epoch' + s.created_at * interval '1 microsecond' AS created_at,
       timestamptz 'epoch' + s.last_active_at * interval '1 microsecond' AS last_active_at,
       timestamptz 'epoch' + s.expires_at * interval '1 microsecond' AS expires_at,
       s.metadata
FROM perdure.session AS s
LEFT JOIN LATERAL (
    SELECT version, state_blob, checksum FROM perdure.snapshot WHERE session = s.no ORDER BY version DESC LIMIT 1
) AS n ON true;

-- Every transaction that changes sessions takes this lock first and keeps it to its end. So positions are given in the
-- order of the commits: whoever sees one has seen all below it that will ever be. And no two writers wait for each other
-- in a circle.
CREATE FUNCTION perdure.enter() RETURNS void LANGUAGE sql AS $$
    SELECT pg_advisory_xact_lock(31634495560970853)
$$;

-- A record in its place, with its idempotency key; its position in the feed.
CREATE FUNCTION perdure.keep(
    _no bigint, _first bigint, _last bigint, _digest bytea, _body bytea,
    _key bytea, _scoped boolean, _fingerprint bytea
) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    _position bigint := nextval('perdure.position');
BEGIN
    INSERT INTO perdure.record (position, session, first, last, digest, body)
    VALUES (_position, _no, _first, _last, _digest, _body);
    IF _key IS NOT NULL THEN
        INSERT INTO perdure.idempotency (scope, mark, fingerprint, session, first, last)
        VALUES (CASE WHEN _scoped THEN _no ELSE 0 END, _key, _fingerprint, _no, _first, _last);
    END IF;
    RETURN _position;
END
$$;

-- One append to a session that nobody else has appended to. A refusal is an answer, not an error, so that it undoes
-- nothing of what is committed together with it. Outcomes: 0 done at `place`; 1 stale; 2 no such session; 3 the key is
-- taken; 5 it may be done, and nobody can tell any more. `_again` is said when an earlier try got no answer: then a record
-- that is there already, digest for digest, is that try's.
CREATE FUNCTION perdure.touch(
    _id uuid, _expected bigint, _before bytea, _salt bytea,
    _version bigint, _digest bytea, _active_at bigint, _turns bigint, _open_turn bigint,
    _first bigint, _last bigint, _body bytea, _key bytea, _scoped boolean, _fingerprint bytea, _again boolean,
    OUT outcome integer, OUT place bigint, OUT facts jsonb
) LANGUAGE plpgsql AS $$
DECLARE
    _no    bigint;
    _found bigint;
    _gone  boolean;
BEGIN
    PERFORM pg_advisory_xact_lock(31634495560970853);
    IF _again THEN
        SELECT r.position INTO place FROM perdure.record AS r JOIN perdure.session AS s ON s.no = r.session
        WHERE s.session_id = _id AND r.first = _first AND r.digest = _digest;
        IF FOUND THEN
            outcome := 0;
            RETURN;
        END IF;
    END IF;
    IF _key IS NOT NULL THEN
        SELECT jsonb_build_object('fingerprint', encode(i.fingerprint, 'hex'), 'session', s.session_id,
                                  'first', i.first, 'last', i.last)
        INTO facts FROM perdure.idempotency AS i JOIN perdure.session AS s ON s.no = i.session
        WHERE i.mark = _key AND i.scope =
            CASE WHEN _scoped THEN (SELECT t.no FROM perdure.session AS t WHERE t.session_id = _id) ELSE 0 END;
        IF FOUND THEN
            outcome := 3;
            RETURN;
        END IF;
    END IF;
    UPDATE perdure.session AS s
    SET state_version = _version, digest = _digest, last_active_at = _active_at, activity = _active_at >> 26,
        turns = _turns, open_turn = _open_turn
    WHERE s.session_id = _id AND s.state_version = _expected AND s.digest = coalesce(_before, s.digest)
        AND s.salt IS NOT DISTINCT FROM _salt
    RETURNING s.no INTO _no;
    IF FOUND THEN
        outcome := 0;
        place := perdure.keep(_no, _first, _last, _digest, _body, _key, _scoped, _fingerprint);
        PERFORM pg_notify('perdure', '');
        RETURN;
    END IF;
    SELECT s.state_version, s.anchor_version >= _first OR s.cold IS NOT NULL INTO _found, _gone
    FROM perdure.session AS s WHERE s.session_id = _id;
    IF NOT FOUND THEN
        outcome := 2;
    ELSIF _again AND _gone THEN
        outcome := 5;
    ELSE
        outcome := 1;
        facts := to_jsonb(_found);
    END IF;
END
$$;

-- A touch that moves money: all of it, or nothing. The arithmetic is that of perdure.core.session.budget. Outcome 4: a
-- reservation does not fit; `facts` tells which move it was and how its account stood.
CREATE FUNCTION perdure.pay(
    _id uuid, _expected bigint, _before bytea, _salt bytea,
    _version bigint, _digest bytea, _active_at bigint, _turns bigint, _open_turn bigint,
    _first bigint, _last bigint, _body bytea, _key bytea, _scoped boolean, _fingerprint bytea, _again boolean,
    _marks bytea[], _ids text[], _reserve bigint[], _release bigint[], _spend bigint[], _caps bigint[], _sets boolean[],
    OUT outcome integer, OUT place bigint, OUT facts jsonb
) LANGUAGE plpgsql AS $$
DECLARE
    _money perdure.account;
    _move  integer;
    _spent bigint;
    _held  bigint;
BEGIN
    PERFORM pg_advisory_xact_lock(31634495560970853);
    -- A try whose answer was lost has moved its money, too: its record tells.
    PERFORM 1 FROM perdure.record AS r JOIN perdure.session AS s ON s.no = r.session
    WHERE _again AND s.session_id = _id AND r.first = _first AND r.digest = _digest;
    IF FOUND THEN
        _marks := '{}';
    END IF;
    BEGIN
        SELECT t.outcome, t.place, t.facts INTO outcome, place, facts FROM perdure.touch(
            _id, _expected, _before, _salt, _version, _digest, _active_at, _turns, _open_turn,
            _first, _last, _body, _key, _scoped, _fingerprint, _again) AS t;
        IF outcome <> 0 THEN
            RETURN;
        END IF;
        FOR _move IN 1 .. cardinality(_marks) LOOP
            SELECT * INTO _money FROM perdure.account AS a WHERE a.mark = _marks[_move];
            IF NOT FOUND THEN
                _money := ROW(_marks[_move], _ids[_move], NULL, 0, 0, false);
            END IF;
            IF _sets[_move] THEN
                _money.cap := _caps[_move];
                _money.paused := coalesce(_money.spent + _money.reserved > _money.cap, false);
            END IF;
            IF _reserve[_move] > 0 AND (_money.paused
                    OR coalesce(_reserve[_move] > _money.cap - _money.spent - _money.reserved, false)) THEN
                facts := jsonb_build_object('move', _move - 1, 'cap', _money.cap, 'spent', _money.spent,
                                            'reserved', _money.reserved, 'paused', _money.paused);
                RAISE EXCEPTION USING ERRCODE = 'PD004';
            END IF;
            _spent := _money.spent + _spend[_move];
            _held := greatest(0, _money.reserved + _reserve[_move] - _release[_move]);
            INSERT INTO perdure.account (mark, id, cap, spent, reserved, paused)
            VALUES (_money.mark, _money.id, _money.cap, _spent, _held,
                    _money.paused OR coalesce(_spent + _held > _money.cap, false))
            ON CONFLICT (mark) DO UPDATE SET cap = excluded.cap, spent = excluded.spent,
                reserved = excluded.reserved, paused = excluded.paused;
        END LOOP;
    EXCEPTION WHEN SQLSTATE 'PD004' THEN
        outcome := 4;
        place := NULL;
    END;
END
$$;
