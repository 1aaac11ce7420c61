-- The first format. docs/FORMAT.md describes every table.

CREATE TABLE session (
    no              INTEGER PRIMARY KEY,
    session_id      BLOB    NOT NULL UNIQUE,
    tenant          TEXT    NOT NULL,
    owner_id        TEXT    NOT NULL,
    title           TEXT    NOT NULL,
    lifecycle_phase TEXT    NOT NULL,
    schema_version  TEXT    NOT NULL,
    state_version   INTEGER NOT NULL,
    digest          BLOB    NOT NULL,
    created_at      INTEGER NOT NULL,
    last_active_at  INTEGER NOT NULL,
    activity        INTEGER NOT NULL,
    expires_at      INTEGER,
    turns           INTEGER NOT NULL,
    open_turn       INTEGER,
    parent          BLOB,
    branch_kind     TEXT,
    branched_at     INTEGER,
    account         TEXT,
    metadata        TEXT    NOT NULL,
    anchor_version  INTEGER NOT NULL DEFAULT 0,
    anchor_digest   BLOB
) STRICT;

-- `activity` is last_active_at in steps of 2^26 µs (67 s): busy sessions touch its index once a step, not once an append.
CREATE INDEX session_created ON session (tenant, created_at DESC, session_id DESC);
CREATE INDEX session_active  ON session (tenant, activity DESC);
CREATE INDEX session_owner   ON session (tenant, owner_id, created_at DESC);
CREATE INDEX session_phase   ON session (tenant, lifecycle_phase, created_at DESC);
CREATE INDEX session_parent  ON session (parent) WHERE parent IS NOT NULL;
CREATE INDEX session_expires ON session (expires_at) WHERE expires_at IS NOT NULL;
CREATE INDEX session_open    ON session (tenant, open_turn) WHERE open_turn IS NOT NULL;

-- Positions grow with every commit and are never given twice: the change feed is this table in order. An erased
-- session leaves one row of session 0 with its id as the digest and the time of its end as the body.
CREATE TABLE record (
    position INTEGER PRIMARY KEY,
    session  INTEGER NOT NULL,
    first    INTEGER NOT NULL,
    last     INTEGER NOT NULL,
    digest   BLOB    NOT NULL,
    body     BLOB    NOT NULL,
    copied   INTEGER
) STRICT;

CREATE UNIQUE INDEX record_place ON record (session, first);
CREATE INDEX record_copies ON record (first) WHERE copied = 1;

CREATE TABLE segment (
    session INTEGER NOT NULL,
    ordinal INTEGER NOT NULL,
    source  INTEGER NOT NULL,
    origin  BLOB    NOT NULL,
    upto    INTEGER NOT NULL,
    digest  BLOB    NOT NULL,
    PRIMARY KEY (session, ordinal)
) STRICT, WITHOUT ROWID;

CREATE INDEX segment_source ON segment (source);

CREATE TABLE label (
    name    TEXT    NOT NULL,
    value   TEXT    NOT NULL,
    session INTEGER NOT NULL,
    PRIMARY KEY (name, value, session)
) STRICT, WITHOUT ROWID;

CREATE INDEX label_session ON label (session);

CREATE TABLE snapshot (
    session    INTEGER NOT NULL,
    version    INTEGER NOT NULL,
    state_blob BLOB    NOT NULL,
    checksum   BLOB    NOT NULL,
    PRIMARY KEY (session, version)
) STRICT, WITHOUT ROWID;

CREATE TABLE checkpoint (
    id          TEXT    PRIMARY KEY,
    session     INTEGER NOT NULL,
    seq         INTEGER NOT NULL,
    version     INTEGER NOT NULL,
    label       TEXT    NOT NULL,
    "trigger"   TEXT    NOT NULL,
    is_full     INTEGER NOT NULL,
    base        INTEGER,
    payload     BLOB    NOT NULL,
    payload_sha BLOB    NOT NULL,
    state_sha   BLOB    NOT NULL,
    at          INTEGER NOT NULL,
    expires_at  INTEGER,
    pinned      INTEGER NOT NULL,
    metadata    TEXT    NOT NULL
) STRICT;

CREATE UNIQUE INDEX checkpoint_place ON checkpoint (session, seq);

CREATE TABLE idempotency (
    scope       INTEGER NOT NULL,
    principal   TEXT    NOT NULL,
    key         TEXT    NOT NULL,
    fingerprint BLOB    NOT NULL,
    session     INTEGER NOT NULL,
    first       INTEGER NOT NULL,
    last        INTEGER NOT NULL,
    PRIMARY KEY (scope, principal, key)
) STRICT, WITHOUT ROWID;

CREATE INDEX idempotency_session ON idempotency (session);

CREATE TABLE account (
    id       TEXT    PRIMARY KEY,
    cap      INTEGER,
    spent    INTEGER NOT NULL,
    reserved INTEGER NOT NULL,
    paused   INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE cursor (
    name     TEXT    PRIMARY KEY,
    position INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- The session table as other tools may want to read it: state_version is the head, state_blob the latest snapshot.
CREATE VIEW sessions AS
SELECT lower(hex(s.session_id)) AS session_id, s.schema_version, s.state_version,
       n.version AS snapshot_version, n.state_blob, n.checksum, s.lifecycle_phase, s.owner_id,
       s.created_at, s.last_active_at, s.expires_at, s.metadata
FROM session AS s
LEFT JOIN snapshot AS n
       ON n.session = s.no AND n.version = (SELECT max(version) FROM snapshot WHERE session = s.no);
