-- name: blob_begin
INSERT INTO perdure.blob (blob_id, tenant, salt, card, size, created_at, touched_at)
VALUES ($1, $2, $3, $4, 0, $5, $6) ON CONFLICT (blob_id) DO NOTHING

-- name: blob_upload
SELECT no FROM perdure.blob WHERE blob_id = $1 AND address IS NULL AND touched_at IS NOT NULL FOR UPDATE

-- name: blob_touch
UPDATE perdure.blob SET touched_at = greatest(touched_at, $1) WHERE no = $2 AND touched_at IS NOT NULL

-- name: blob_add
INSERT INTO perdure.blob_chunk (blob, number, body) VALUES ($1, $2, $3)
ON CONFLICT (blob, number) DO UPDATE SET body = excluded.body

-- name: blob_finish
UPDATE perdure.blob SET address = $1, card = $2, size = $3, touched_at = $4 WHERE no = $5

-- name: blob_doom
UPDATE perdure.blob SET address = NULL, touched_at = NULL WHERE blob_id = $1

-- name: blob_find
SELECT blob_id, tenant, address, salt, card, size, created_at, no FROM perdure.blob WHERE address = $1

-- name: blob_used
SELECT DISTINCT address FROM perdure.blob_use WHERE address = ANY ($1::text[])

-- name: blob_there
SELECT address FROM perdure.blob WHERE address = ANY ($1::text[])

-- name: blob_describe
UPDATE perdure.blob SET card = $1 WHERE blob_id = $2 AND address IS NOT NULL

-- name: blob_chunk
SELECT c.body FROM perdure.blob_chunk AS c JOIN perdure.blob AS b ON b.no = c.blob
WHERE b.blob_id = $1 AND c.number = $2 AND b.touched_at IS NOT NULL

-- name: blob_page
SELECT blob_id, tenant, address, salt, card, size, created_at FROM perdure.blob
WHERE address IS NOT NULL AND tenant = $1 AND (created_at, blob_id) < ($2, $3)
ORDER BY created_at DESC, blob_id DESC LIMIT $4

-- name: blob_idle
SELECT blob_id FROM perdure.blob AS b
WHERE tenant = coalesce($1, tenant) AND touched_at < greatest($2::bigint, $3::bigint) AND (
    (address IS NULL AND touched_at < $3::bigint)
    OR (touched_at < $2::bigint AND address IS NOT NULL
        AND NOT EXISTS (SELECT 1 FROM perdure.blob_use AS u WHERE u.address = b.address)))
ORDER BY touched_at LIMIT $4

-- name: blob_doom_unused
UPDATE perdure.blob AS b SET address = NULL, touched_at = NULL
WHERE blob_id = $1 AND address IS NOT NULL AND touched_at < $2
    AND NOT EXISTS (SELECT 1 FROM perdure.blob_use AS u WHERE u.address = b.address)
RETURNING size

-- name: blob_doom_upload
UPDATE perdure.blob SET touched_at = NULL WHERE blob_id = $1 AND address IS NULL AND touched_at < $2 RETURNING no

-- name: blob_discard
UPDATE perdure.blob SET touched_at = NULL WHERE blob_id = $1 AND address IS NULL

-- name: blob_is
SELECT 1 FROM perdure.blob WHERE blob_id = $1 AND address IS NOT NULL

-- name: blob_doomed
SELECT blob_id, tenant, address, salt, card, size, created_at FROM perdure.blob
WHERE touched_at IS NULL AND tenant = coalesce($1, tenant) LIMIT $2

-- name: blob_leaving
SELECT no FROM perdure.blob WHERE blob_id = $1 AND touched_at IS NULL FOR UPDATE

-- name: blob_drop_chunks
DELETE FROM perdure.blob_chunk WHERE blob = $1 AND number IN (
    SELECT number FROM perdure.blob_chunk WHERE blob = $1 ORDER BY number LIMIT $2)
RETURNING number

-- name: blob_drop
DELETE FROM perdure.blob WHERE no = $1

-- name: blob_use
INSERT INTO perdure.blob_use (session, version, address) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING

-- name: blob_unuse
DELETE FROM perdure.blob_use WHERE session = $1 AND version BETWEEN $2 AND $3

-- name: blob_unuse_all
DELETE FROM perdure.blob_use WHERE session = $1

-- name: blob_uses
SELECT u.version, u.address FROM perdure.blob_use AS u JOIN perdure.session AS s ON s.no = u.session
WHERE s.session_id = $1

-- name: blob_missing
SELECT DISTINCT s.session_id FROM perdure.blob_use AS u JOIN perdure.session AS s ON s.no = u.session
WHERE s.tenant = $1 AND NOT EXISTS (SELECT 1 FROM perdure.blob AS b WHERE b.address = u.address) LIMIT $2
