-- Events out: what was committed, for tenants that record it. Instants in microseconds of the epoch.
CREATE TABLE event_recording (
    tenant   text    PRIMARY KEY,
    enabled  boolean NOT NULL,
    revision bigint  NOT NULL,   -- of the switches (switch_revision), as of the last change
    since    bigint              -- nothing that was committed later is missing; null: not enabled, or not on all nodes yet
);

-- A row per version, without its document.
CREATE TABLE event_outbox (
    tenant          text   NOT NULL,
    at              bigint NOT NULL,
    transaction_id  uuid   NOT NULL,
    entity          uuid   NOT NULL,
    model           uuid   NOT NULL,
    change          text   NOT NULL,   -- create, update, delete
    from_state      text,
    state           text   NOT NULL,
    transition      text,
    attributed_id   text   NOT NULL,
    attributed_kind text   NOT NULL,
    executor_id     text   NOT NULL,
    executor_kind   text   NOT NULL,
    PRIMARY KEY (tenant, at, transaction_id, entity)
);

-- The revision of the switches by which a node writes the outbox; nodes of earlier versions never do.
ALTER TABLE cluster_node ADD COLUMN recordings bigint NOT NULL DEFAULT -1;
