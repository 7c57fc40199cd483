-- Edge messages: JSON payloads stored as they came, without a model. They are never changed.
--
-- A payload is compact JSON text in UTF-8, cut into pieces so that neither writing nor reading ever holds all of it. The
-- first piece stands in the message itself: most payloads have no other.

CREATE TABLE message (
    tenant   text    NOT NULL,
    id       uuid    NOT NULL,
    header   text    NOT NULL,  -- JSON text as it is reported; text, because jsonb takes no NUL and any header may hold one
    metadata bytea   NOT NULL,  -- JSON text; bytea, because it goes out exactly as it came in
    pieces   integer NOT NULL CHECK (pieces > 0),
    content  bytea   NOT NULL,  -- piece 0
    PRIMARY KEY (tenant, id)
);

CREATE TABLE message_piece (
    tenant  text    NOT NULL,
    message uuid    NOT NULL,
    n       integer NOT NULL CHECK (n > 0),
    content bytea   NOT NULL,
    PRIMARY KEY (tenant, message, n)
);

DO $$
BEGIN
    ALTER TABLE message ALTER COLUMN content SET COMPRESSION lz4, ALTER COLUMN metadata SET COMPRESSION lz4;
    ALTER TABLE message_piece ALTER COLUMN content SET COMPRESSION lz4;
EXCEPTION WHEN feature_not_supported THEN
    NULL;
END
$$;
