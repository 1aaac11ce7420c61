-- Blobs, in chunks, beside the log. `address` is a keyed hash of tenant and content; an upload has none yet. Without
-- `touched_at` a row is on its way out. A use is the version of an event, in a session's own rows, and the address it
-- points to, whether that is here or not.
CREATE TABLE blob (
    no         INTEGER PRIMARY KEY,
    blob_id    BLOB    NOT NULL UNIQUE,
    tenant     TEXT    NOT NULL,
    address    TEXT    UNIQUE,
    salt       BLOB,
    card       BLOB    NOT NULL,
    size       INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    touched_at INTEGER
) STRICT;

CREATE INDEX blob_created ON blob (tenant, created_at DESC, blob_id DESC) WHERE address IS NOT NULL;
CREATE INDEX blob_touched ON blob (touched_at);

CREATE TABLE blob_chunk (
    blob   INTEGER NOT NULL,
    number INTEGER NOT NULL,
    body   BLOB    NOT NULL
) STRICT;

CREATE UNIQUE INDEX blob_chunk_place ON blob_chunk (blob, number);

CREATE TABLE blob_use (
    session INTEGER NOT NULL,
    version INTEGER NOT NULL,
    address TEXT    NOT NULL,
    PRIMARY KEY (session, version, address)
) STRICT, WITHOUT ROWID;

CREATE INDEX blob_use_address ON blob_use (address);
