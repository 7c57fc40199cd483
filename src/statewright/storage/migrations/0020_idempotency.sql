-- What requests with an Idempotency-Key have done. A record commits with the effect of its request, so neither is without the other.
CREATE TABLE idempotency (
    tenant         text     NOT NULL,
    principal      text     NOT NULL,
    key            uuid     NOT NULL,                -- hash of the client's key
    request_hash   bytea    NOT NULL,                -- SHA-256 of what was asked
    status         text     NOT NULL CHECK (status IN ('IN_PROGRESS', 'DONE', 'INTERRUPTED')),
    token          uuid     NOT NULL,                -- of the attempt that may go on
    node           text     NOT NULL,                -- that makes the attempt; empty: it was given up
    is_segmented   boolean  NOT NULL DEFAULT false,  -- a part of the open run is durable
    transaction_id uuid,
    entities       uuid[]   NOT NULL DEFAULT '{}',
    elements       text[]   NOT NULL DEFAULT '{}',   -- of a collection: what became of the chunks so far, JSON
    answer_status  smallint,
    answer_type    text,
    answer         text,
    created_at     bigint   NOT NULL,
    expires_at     bigint   NOT NULL,                -- microseconds of the epoch, by the clock of the database
    PRIMARY KEY (tenant, principal, key)
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX idempotency_expiry ON idempotency (expires_at);

DO $$
BEGIN
    ALTER TABLE idempotency ALTER COLUMN answer SET COMPRESSION lz4;
EXCEPTION WHEN feature_not_supported THEN
    NULL;
END
$$;
