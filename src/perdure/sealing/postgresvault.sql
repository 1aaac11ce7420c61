-- name: exists
SELECT to_regclass('perdure_keys.entry') IS NOT NULL

-- name: schema
CREATE SCHEMA IF NOT EXISTS perdure_keys;

CREATE TABLE perdure_keys.about (
    name  text PRIMARY KEY,
    value text NOT NULL
);

CREATE TABLE perdure_keys.entry (
    name         bytea  PRIMARY KEY,
    kind         text   NOT NULL,
    master       text   NOT NULL,
    salt         bytea  NOT NULL,
    wrapped      bytea,
    made_at      bigint NOT NULL,
    condemned_by text,
    condemned_at bigint
);

CREATE INDEX entry_condemned ON perdure_keys.entry (condemned_by) WHERE condemned_by IS NOT NULL;

INSERT INTO perdure_keys.about VALUES ('format', '1');

-- name: lock
LOCK TABLE perdure_keys.about IN EXCLUSIVE MODE

-- name: about
SELECT value FROM perdure_keys.about WHERE name = %s

-- name: set_about
INSERT INTO perdure_keys.about (name, value) VALUES (%s, %s) ON CONFLICT (name) DO UPDATE SET value = excluded.value

-- name: insert
INSERT INTO perdure_keys.entry (name, kind, master, salt, wrapped, made_at) VALUES (%s, %s, %s, %s, %s, %s)
ON CONFLICT DO NOTHING

-- name: get
SELECT name, kind, master, salt, wrapped, made_at FROM perdure_keys.entry WHERE name = %s

-- name: proofs
SELECT name, kind, master, salt, wrapped, made_at FROM perdure_keys.entry WHERE kind = 'proof' ORDER BY name

-- name: page
SELECT name, kind, master, salt, wrapped, made_at FROM perdure_keys.entry
WHERE name > %s AND kind <> 'proof' AND master IS DISTINCT FROM %s ORDER BY name LIMIT %s

-- name: replace
UPDATE perdure_keys.entry SET master = %s, salt = %s, wrapped = %s WHERE name = %s AND master = %s AND salt = %s

-- name: under
SELECT 1 FROM perdure_keys.entry WHERE master = %s AND kind <> 'proof' LIMIT 1

-- name: proofs_of
SELECT name FROM perdure_keys.entry WHERE master = %s AND kind = 'proof'

-- name: condemn
UPDATE perdure_keys.entry SET condemned_by = %s, condemned_at = %s WHERE name = %s

-- name: spare
UPDATE perdure_keys.entry SET condemned_by = NULL, condemned_at = NULL WHERE name = %s

-- name: condemned
SELECT name, condemned_at FROM perdure_keys.entry WHERE condemned_by = %s

-- name: delete
DELETE FROM perdure_keys.entry WHERE name = %s

-- name: vacuum
VACUUM perdure_keys.entry

-- name: census
SELECT master, count(*), count(condemned_by) FROM perdure_keys.entry WHERE kind <> 'proof'
GROUP BY master ORDER BY master

-- name: has_heads
SELECT to_regclass('perdure_keys.head') IS NOT NULL

-- name: heads_schema
CREATE TABLE IF NOT EXISTS perdure_keys.head (
    salt    bytea  PRIMARY KEY,
    store   text   NOT NULL,
    tenant  text   NOT NULL,
    session bytea  NOT NULL,
    version bigint NOT NULL,
    digest  bytea  NOT NULL,
    at      bigint NOT NULL,
    remark  text   NOT NULL,
    mac     bytea  NOT NULL
);

-- name: head
SELECT h.salt, h.store, h.tenant, h.session, h.version, h.digest, h.at, h.remark, h.mac
FROM perdure_keys.head AS h JOIN perdure_keys.entry AS e ON e.name = h.salt
WHERE h.salt = %s AND e.condemned_by IS NULL

-- name: heads_of
SELECT h.salt, h.store, h.tenant, h.session, h.version, h.digest, h.at, h.remark, h.mac
FROM perdure_keys.head AS h JOIN perdure_keys.entry AS e ON e.name = h.salt
WHERE h.store = %s AND h.salt > %s AND e.condemned_by IS NULL ORDER BY h.salt LIMIT %s

-- name: keep_head
INSERT INTO perdure_keys.head AS h (salt, store, tenant, session, version, digest, at, remark, mac)
SELECT %s, %s, %s, %s, %s, %s, %s, %s, %s WHERE EXISTS (SELECT 1 FROM perdure_keys.entry WHERE name = %s)
ON CONFLICT (salt) DO UPDATE SET store = excluded.store, tenant = excluded.tenant, session = excluded.session,
    version = excluded.version, digest = excluded.digest, at = excluded.at, remark = excluded.remark, mac = excluded.mac
WHERE excluded.version > h.version OR %s = 1
RETURNING 1

-- name: drop_head
DELETE FROM perdure_keys.head WHERE salt = %s
