-- Models, workflows, entities with their superseded versions, and the audit trail.
--
-- Every key starts with the tenant: nothing joins or constrains across tenants. All instants are microseconds since
-- 1970-01-01T00:00:00Z, taken from the database clock inside the statement that writes the row.

CREATE FUNCTION now_us() RETURNS bigint
    LANGUAGE sql VOLATILE PARALLEL SAFE
    RETURN (extract(epoch FROM clock_timestamp()) * 1000000)::bigint;

-- One number line for all definitions: a cache entry is stale when its revision differs from the stored one.
CREATE SEQUENCE definition_revision;

CREATE TABLE model (
    tenant       text    NOT NULL,
    id           uuid    NOT NULL,          -- UUID v5 over "<name>.<version>"
    name         text    NOT NULL,
    version      integer NOT NULL,
    state        text    NOT NULL CHECK (state IN ('UNLOCKED', 'LOCKED')),
    change_level text    CHECK (change_level IN ('ARRAY_LENGTH', 'ARRAY_ELEMENTS', 'TYPE', 'STRUCTURAL')),
    schema       jsonb   NOT NULL,
    unique_keys  jsonb   NOT NULL DEFAULT '[]',
    suspended    boolean NOT NULL DEFAULT false,
    imported_at  bigint  NOT NULL,
    changed_at   bigint  NOT NULL,
    revision     bigint  NOT NULL,
    PRIMARY KEY (tenant, id)
);
CREATE INDEX model_changed ON model (changed_at);

-- Kept apart from the model: deleting a model leaves its workflows for the next import of the same name and version.
CREATE TABLE workflow_set (
    tenant     text   NOT NULL,
    model      uuid   NOT NULL,
    workflows  text   NOT NULL,             -- text, not jsonb: criteria go out exactly as they came in
    changed_at bigint NOT NULL,
    revision   bigint NOT NULL,
    PRIMARY KEY (tenant, model)
);
CREATE INDEX workflow_set_changed ON workflow_set (changed_at);

-- Current versions only. No index on a column that updates change, so that every update stays HOT.
CREATE TABLE entity (
    tenant               text    NOT NULL,
    id                   uuid    NOT NULL,
    model                uuid    NOT NULL,
    state                text    NOT NULL,
    transaction_id       uuid    NOT NULL,  -- the transaction that wrote this version
    entry_transaction_id uuid    NOT NULL,  -- the id its client was told; differs after a segmented run
    created_at           bigint  NOT NULL,
    valid_from           bigint  NOT NULL,
    transition           text    NOT NULL,
    workflow             text    NOT NULL,
    workflow_revision    bigint  NOT NULL,
    attributed_id        text    NOT NULL,
    attributed_kind      text    NOT NULL,
    executor_id          text    NOT NULL,
    executor_kind        text    NOT NULL,
    suspended            boolean NOT NULL DEFAULT false,
    document             jsonb   NOT NULL,
    PRIMARY KEY (tenant, id)
) WITH (fillfactor = 85, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX entity_model ON entity (tenant, model, id);

-- Superseded versions, each valid in [valid_from, valid_to), and one tombstone per deletion (no document, valid for ever).
CREATE TABLE entity_history (
    tenant               text    NOT NULL,
    id                   uuid    NOT NULL,
    model                uuid    NOT NULL,
    state                text    NOT NULL,
    transaction_id       uuid    NOT NULL,
    entry_transaction_id uuid    NOT NULL,
    created_at           bigint  NOT NULL,
    valid_from           bigint  NOT NULL,
    valid_to             bigint  NOT NULL,
    transition           text    NOT NULL,
    workflow             text    NOT NULL,
    workflow_revision    bigint  NOT NULL,
    attributed_id        text    NOT NULL,
    attributed_kind      text    NOT NULL,
    executor_id          text    NOT NULL,
    executor_kind        text    NOT NULL,
    document             jsonb,             -- null = tombstone
    PRIMARY KEY (tenant, id, valid_from)
);

-- One row per entity and transaction, holding all events of that run in order; n lets a reader skip rows undecoded.
CREATE TABLE entity_audit (
    tenant         text     NOT NULL,
    entity         uuid     NOT NULL,
    at             bigint   NOT NULL,       -- of the first event
    transaction_id uuid     NOT NULL,       -- the entry transaction of the run
    n              integer NOT NULL,
    events         text     NOT NULL
);
CREATE INDEX entity_audit_entity ON entity_audit (tenant, entity, at);

-- lz4 compresses documents twice as fast as pglz; a server built without it keeps its default.
DO $$
BEGIN
    ALTER TABLE entity ALTER COLUMN document SET COMPRESSION lz4;
    ALTER TABLE entity_history ALTER COLUMN document SET COMPRESSION lz4;
EXCEPTION WHEN feature_not_supported THEN
    NULL;
END
$$;
