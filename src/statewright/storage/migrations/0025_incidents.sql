-- Incidents: failed work that stays visible after its transaction was rolled back. Instants in microseconds of the epoch.
CREATE TABLE incident (
    tenant             text    NOT NULL,
    id                 uuid    NOT NULL,
    kind               text    NOT NULL,
    severity           text    NOT NULL,
    status             text    NOT NULL DEFAULT 'OPEN',
    fingerprint        text    NOT NULL,
    title              text    NOT NULL,
    first_at           bigint  NOT NULL,
    last_at            bigint  NOT NULL,
    occurrences        bigint  NOT NULL,
    subject_kind       text    NOT NULL,
    subject_id         text    NOT NULL,      -- an entity or instance, or the hash of a new entity's document
    model              text    NOT NULL,      -- name/version
    state              text    NOT NULL,
    entity_transaction uuid,                  -- the version that the failed run began with
    language           text,
    workflow           text,
    transition         text,
    step               text,
    component          text,
    code               text    NOT NULL,
    cause              text,
    message            text    NOT NULL,
    attempts           text    NOT NULL,      -- JSON
    principal_id       text    NOT NULL,
    principal_kind     text    NOT NULL,
    trace_id           text,
    payload            text,                  -- JSON
    payload_omitted    boolean NOT NULL,
    retried_until      bigint  NOT NULL DEFAULT 0,  -- somebody is retrying it
    resolved_at        bigint,
    resolved_by_id     text,
    resolved_by_kind   text,
    resolution         text,
    resolution_reason  text,
    PRIMARY KEY (tenant, id)
);
CREATE UNIQUE INDEX incident_open ON incident (tenant, subject_id, fingerprint) WHERE status = 'OPEN';
CREATE INDEX incident_latest ON incident (tenant, status, last_at, id);
CREATE INDEX incident_group ON incident (tenant, fingerprint) WHERE status = 'OPEN';
CREATE INDEX incident_resolved ON incident (resolved_at) WHERE status = 'RESOLVED';
