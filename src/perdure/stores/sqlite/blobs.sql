-- Blobs, in chunks, beside the log. Their tables are made when the first one comes. `address` is a keyed hash of tenant
-- and content; an upload has none yet. Without `touched_at` a row is on its way out. A use is the version of an event, in
-- a session's own rows, and the address it points to, whether that is here or not.

-- name: blob_tables
CREATE TABLE IF NOT EXISTS blob (
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

CREATE INDEX IF NOT EXISTS blob_created ON blob (tenant, created_at DESC, blob_id DESC) WHERE address IS NOT NULL;
CREATE INDEX IF NOT EXISTS blob_touched ON blob (touched_at);

CREATE TABLE IF NOT EXISTS blob_chunk (
    blob   INTEGER NOT NULL,
    number INTEGER NOT NULL,
    body   BLOB    NOT NULL
) STRICT;

CREATE UNIQUE INDEX IF NOT EXISTS blob_chunk_place ON blob_chunk (blob, number);

CREATE TABLE IF NOT EXISTS blob_use (
    session INTEGER NOT NULL,
    version INTEGER NOT NULL,
    address TEXT    NOT NULL,
    PRIMARY KEY (session, version, address)
) STRICT, WITHOUT ROWID;

CREATE INDEX IF NOT EXISTS blob_use_address ON blob_use (address);

-- name: blob_begin
INSERT INTO blob (blob_id, tenant, salt, card, size, created_at, touched_at) VALUES (?, ?, ?, ?, 0, ?, ?)

-- name: blob_upload
SELECT no FROM blob WHERE blob_id = ? AND address IS NULL AND touched_at IS NOT NULL

-- name: blob_touch
UPDATE blob SET touched_at = max(touched_at, ?) WHERE no = ?

-- name: blob_add
INSERT INTO blob_chunk (blob, number, body) VALUES (?, ?, ?)

-- name: blob_finish
UPDATE blob SET address = ?, card = ?, size = ?, touched_at = ? WHERE no = ?

-- name: blob_doom
UPDATE blob SET address = NULL, touched_at = NULL WHERE blob_id = ?

-- name: blob_find
SELECT blob_id, tenant, address, salt, card, size, created_at, no FROM blob WHERE address = ?

-- name: blob_used
SELECT 1 FROM blob_use WHERE address = ? LIMIT 1

-- name: blob_there
SELECT 1 FROM blob WHERE address = ?

-- name: blob_describe
UPDATE blob SET card = ? WHERE blob_id = ? AND address IS NOT NULL

-- name: blob_chunk
SELECT c.body FROM blob_chunk AS c JOIN blob AS b ON b.no = c.blob
WHERE b.blob_id = ? AND c.number = ? AND b.touched_at IS NOT NULL

-- name: blob_page
SELECT blob_id, tenant, address, salt, card, size, created_at FROM blob
WHERE address IS NOT NULL AND tenant = ?1 AND (created_at, blob_id) < (?2, ?3)
ORDER BY created_at DESC, blob_id DESC LIMIT ?4

-- name: blob_idle
SELECT blob_id FROM blob AS b
WHERE tenant = coalesce(?1, tenant) AND touched_at < max(?2, ?3) AND (
    (address IS NULL AND touched_at < ?3)
    OR (touched_at < ?2 AND address IS NOT NULL
        AND NOT EXISTS (SELECT 1 FROM blob_use AS u WHERE u.address = b.address)))
ORDER BY touched_at LIMIT ?4

-- name: blob_doom_unused
UPDATE blob SET address = NULL, touched_at = NULL
WHERE blob_id = ? AND address IS NOT NULL AND touched_at < ?
    AND NOT EXISTS (SELECT 1 FROM blob_use AS u WHERE u.address = blob.address)
RETURNING size

-- name: blob_doom_upload
UPDATE blob SET touched_at = NULL WHERE blob_id = ? AND address IS NULL AND touched_at < ? RETURNING no

-- name: blob_discard
UPDATE blob SET touched_at = NULL WHERE blob_id = ? AND address IS NULL

-- name: blob_is
SELECT 1 FROM blob WHERE blob_id = ? AND address IS NOT NULL

-- name: blob_doomed
SELECT blob_id, tenant, address, salt, card, size, created_at FROM blob
WHERE touched_at IS NULL AND tenant = coalesce(?, tenant) LIMIT ?

-- name: blob_leaving
SELECT no FROM blob WHERE blob_id = ? AND touched_at IS NULL

-- name: blob_drop_chunks
DELETE FROM blob_chunk WHERE rowid IN (SELECT rowid FROM blob_chunk WHERE blob = ? ORDER BY number LIMIT ?)
RETURNING number

-- name: blob_drop
DELETE FROM blob WHERE no = ?

-- name: blob_use
INSERT OR IGNORE INTO blob_use (session, version, address) VALUES (?, ?, ?)

-- name: blob_unuse
DELETE FROM blob_use WHERE session = ? AND version BETWEEN ? AND ?

-- name: blob_unuse_all
DELETE FROM blob_use WHERE session = ?

-- name: blob_uses
SELECT u.version, u.address FROM blob_use AS u JOIN session AS s ON s.no = u.session WHERE s.session_id = ?

-- name: blob_missing
SELECT DISTINCT s.session_id FROM blob_use AS u JOIN session AS s ON s.no = u.session
WHERE s.tenant = ? AND NOT EXISTS (SELECT 1 FROM blob AS b WHERE b.address = u.address) LIMIT ?

-- name: blob_salts
SELECT salt FROM blob WHERE salt IS NOT NULL
