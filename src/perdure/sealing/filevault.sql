-- Salts lie in slots of one size that are only ever overwritten in place, never moved and never deleted: so SQLite
-- leaves no second copy of one in a corner of some page. A slot that is free holds zeros until it is used again.

-- name: schema
CREATE TABLE about (
    name  TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE slot (
    no     INTEGER PRIMARY KEY,
    secret BLOB    NOT NULL
) STRICT;

CREATE TABLE free (
    slot INTEGER PRIMARY KEY
) STRICT;

CREATE TABLE entry (
    name         BLOB    PRIMARY KEY,
    kind         TEXT    NOT NULL,
    master       TEXT    NOT NULL,
    slot         INTEGER NOT NULL,
    wrapped      INTEGER NOT NULL,
    made_at      INTEGER NOT NULL,
    condemned_by TEXT,
    condemned_at INTEGER
) STRICT, WITHOUT ROWID;

CREATE INDEX entry_condemned ON entry (condemned_by) WHERE condemned_by IS NOT NULL;

-- name: about
SELECT value FROM about WHERE name = ?

-- name: set_about
INSERT INTO about (name, value) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value

-- name: take_free
DELETE FROM free WHERE slot = (SELECT min(slot) FROM free) RETURNING slot

-- name: new_slot
INSERT INTO slot (secret) VALUES (?) RETURNING no

-- name: fill_slot
UPDATE slot SET secret = ? WHERE no = ?

-- name: free_slot
INSERT INTO free (slot) VALUES (?)

-- name: insert
INSERT INTO entry (name, kind, master, slot, wrapped, made_at) VALUES (?, ?, ?, ?, ?, ?)

-- name: get
SELECT e.name, e.kind, e.master, e.wrapped, e.made_at, s.secret FROM entry AS e JOIN slot AS s ON s.no = e.slot
WHERE e.name = ?

-- name: proofs
SELECT e.name, e.kind, e.master, e.wrapped, e.made_at, s.secret FROM entry AS e JOIN slot AS s ON s.no = e.slot
WHERE e.kind = 'proof' ORDER BY e.name

-- name: page
SELECT e.name, e.kind, e.master, e.wrapped, e.made_at, s.secret FROM entry AS e JOIN slot AS s ON s.no = e.slot
WHERE e.name > ? AND e.kind <> 'proof' AND e.master IS NOT ? ORDER BY e.name LIMIT ?

-- name: proofs_of
SELECT name FROM entry WHERE master = ? AND kind = 'proof'

-- name: slot_of
SELECT slot FROM entry WHERE name = ?

-- name: replace
UPDATE entry SET master = ?, wrapped = ? WHERE name = ?

-- name: under
SELECT 1 FROM entry WHERE master = ? AND kind <> 'proof' LIMIT 1

-- name: condemn
UPDATE entry SET condemned_by = ?, condemned_at = ? WHERE name = ?

-- name: spare
UPDATE entry SET condemned_by = NULL, condemned_at = NULL WHERE name = ?

-- name: condemned
SELECT name, condemned_at FROM entry WHERE condemned_by = ?

-- name: delete
DELETE FROM entry WHERE name = ? RETURNING slot

-- name: census
SELECT master, count(*), count(condemned_by) FROM entry WHERE kind <> 'proof' GROUP BY master ORDER BY master

-- name: has_heads
SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'head')

-- name: heads_schema
CREATE TABLE head (
    salt    BLOB    PRIMARY KEY,
    store   TEXT    NOT NULL,
    tenant  TEXT    NOT NULL,
    session BLOB    NOT NULL,
    version INTEGER NOT NULL,
    digest  BLOB    NOT NULL,
    at      INTEGER NOT NULL,
    remark  TEXT    NOT NULL,
    mac     BLOB    NOT NULL
) STRICT, WITHOUT ROWID;

-- name: head
SELECT h.salt, h.store, h.tenant, h.session, h.version, h.digest, h.at, h.remark, h.mac
FROM head AS h JOIN entry AS e ON e.name = h.salt WHERE h.salt = ? AND e.condemned_by IS NULL

-- name: heads_of
SELECT h.salt, h.store, h.tenant, h.session, h.version, h.digest, h.at, h.remark, h.mac
FROM head AS h JOIN entry AS e ON e.name = h.salt
WHERE h.store = ? AND h.salt > ? AND e.condemned_by IS NULL ORDER BY h.salt LIMIT ?

-- name: keep_head
INSERT INTO head (salt, store, tenant, session, version, digest, at, remark, mac)
SELECT ?, ?, ?, ?, ?, ?, ?, ?, ? WHERE EXISTS (SELECT 1 FROM entry WHERE name = ?)
ON CONFLICT (salt) DO UPDATE SET store = excluded.store, tenant = excluded.tenant, session = excluded.session,
    version = excluded.version, digest = excluded.digest, at = excluded.at, remark = excluded.remark, mac = excluded.mac
WHERE excluded.version > head.version OR ?
RETURNING 1

-- name: drop_head
DELETE FROM head WHERE salt = ?
