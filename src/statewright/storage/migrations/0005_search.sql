-- Asynchronous searches.

-- Of all versions of a model only those are looked at that were superseded after the instant of a search; for a recent
-- instant, as that of every asynchronous search, hardly any. Tombstones are never part of a result.
CREATE INDEX entity_history_model ON entity_history (tenant, model, valid_to) WHERE document IS NOT NULL;

CREATE TABLE search_job (
    tenant      text    NOT NULL,
    id          uuid    NOT NULL,
    model       uuid    NOT NULL,
    name        text    NOT NULL,           -- of the model, which may be deleted before the results are read
    version     integer NOT NULL,
    condition   text    NOT NULL,           -- canonical JSON
    sort        text    NOT NULL,           -- the keys as JSON
    instant     bigint  NOT NULL,           -- the versions that were current then are searched: so a job can be repeated
    status      text    NOT NULL CHECK (status IN ('RUNNING', 'SUCCESSFUL', 'FAILED', 'CANCELLED')),
    created_at  bigint  NOT NULL,
    finished_at bigint,
    hits        bigint  NOT NULL DEFAULT 0,
    failure     text,
    worker      text,                       -- the process that works on it, as long as its lease lasts
    lease_until bigint  NOT NULL DEFAULT 0,
    attempts    integer NOT NULL DEFAULT 0,
    PRIMARY KEY (tenant, id)
);
CREATE INDEX search_job_running ON search_job (created_at) WHERE status = 'RUNNING';
CREATE INDEX search_job_finished ON search_job (finished_at) WHERE status <> 'RUNNING';

-- The matches of a job in order, a thousand to a row: a hundred rows instead of a hundred thousand to write, to find a
-- page in and to delete. A version is named by the instant from which it was valid.
CREATE TABLE search_hits (
    tenant   text     NOT NULL,
    job      uuid     NOT NULL,
    part     integer  NOT NULL,
    entities uuid[]   NOT NULL,
    versions bigint[] NOT NULL,
    PRIMARY KEY (tenant, job, part),
    FOREIGN KEY (tenant, job) REFERENCES search_job (tenant, id) ON DELETE CASCADE
);

-- Indexes that people have declared on fields of their models; PostgreSQL's own are named like the id. Each is partial, so
-- that entities of other models have no entry in it, and each costs every update of every entity its place on the page
-- (no HOT): few are good, many are not.
CREATE TABLE search_index (
    id          text    NOT NULL PRIMARY KEY,
    tenant      text    NOT NULL,
    model       uuid    NOT NULL,
    path        text    NOT NULL,
    kind        text    NOT NULL CHECK (kind IN ('TEXT', 'NUMBER', 'BOOLEAN', 'DOCUMENT')),
    state       text,                       -- only entities in this state are in the index; null = all
    status      text    NOT NULL CHECK (status IN ('BUILDING', 'READY', 'FAILED', 'DROPPING')),
    failure     text,
    created_at  bigint  NOT NULL,
    worker      text,
    lease_until bigint  NOT NULL DEFAULT 0
);
CREATE INDEX search_index_model ON search_index (tenant, model);

-- A model belongs to one tenant and its states to it; without being told, the planner multiplies their frequencies.
CREATE STATISTICS entity_population (mcv, dependencies) ON tenant, model, state FROM entity;
