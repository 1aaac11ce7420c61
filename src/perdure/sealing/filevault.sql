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
