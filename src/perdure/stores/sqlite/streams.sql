-- Streams of running turns, beside the log. Their tables are made when the first one comes. `node` runs the turn and is
-- believed to until `until`; a piece begins at `start` and ends before `upto`, both counted in bytes of the stream.

-- name: stream_tables
CREATE TABLE IF NOT EXISTS stream (
    session INTEGER NOT NULL,
    turn    INTEGER NOT NULL,
    node    TEXT    NOT NULL,
    until   INTEGER NOT NULL,
    PRIMARY KEY (session, turn)
) STRICT, WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS stream_piece (
    session INTEGER NOT NULL,
    turn    INTEGER NOT NULL,
    start   INTEGER NOT NULL,
    upto    INTEGER NOT NULL,
    body    BLOB    NOT NULL,
    PRIMARY KEY (session, turn, start)
) STRICT, WITHOUT ROWID;

-- name: stream_run_by
INSERT OR REPLACE INTO stream (session, turn, node, until) VALUES (?, ?, ?, ?)

-- name: stream_keep
INSERT OR REPLACE INTO stream_piece (session, turn, start, upto, body) VALUES (?, ?, ?, ?, ?)

-- name: stream_kept
SELECT l.node, l.until, s.tenant, s.session_id, s.salt, p.start, p.body
FROM session AS s JOIN stream AS l ON l.session = s.no LEFT JOIN stream_piece AS p
    ON p.session = l.session AND p.turn = l.turn AND p.upto > ?3 AND p.start >= coalesce((
        SELECT max(start) FROM stream_piece WHERE session = l.session AND turn = l.turn AND start <= ?3), 0)
WHERE s.session_id = ?1 AND l.turn = ?2 ORDER BY p.start

-- name: stream_let_go
DELETE FROM stream WHERE session = ? AND turn <= ?

-- name: stream_let_pieces_go
DELETE FROM stream_piece WHERE session = ? AND turn <= ?

-- name: stream_blank
DELETE FROM stream_piece WHERE session = ? AND turn = ?
