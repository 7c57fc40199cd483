-- The JSON step engine beside its entities (docs/steps.md): what has to be found, queued or counted without looking into
-- documents. Instances, versions of definitions and user tasks are entities; the rows here are written by the statement
-- that commits their versions. Ids are the 128 bits of a ULID and rise with time. Instants are microseconds since 1970.

-- Versions of definitions, in the text that was accepted: jsonb would lose the order of branches.
CREATE TABLE step_definition (
    tenant      text    NOT NULL,
    id          text    NOT NULL,           -- chosen by the author
    version     integer NOT NULL,
    name        text    NOT NULL,
    description text    NOT NULL,
    content     text    NOT NULL,           -- hash; equal for equal content
    uploaded_at bigint  NOT NULL,
    source      text    NOT NULL,
    PRIMARY KEY (tenant, id, version)
);

-- What instances are listed, counted and purged by.
CREATE TABLE step_instance (
    tenant        text    NOT NULL,
    id            uuid    NOT NULL,
    definition_id text    NOT NULL,
    status        text    NOT NULL,
    business_key  text,
    finished_at   bigint,
    PRIMARY KEY (tenant, id)
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX step_instance_definition ON step_instance (tenant, definition_id, id);
CREATE INDEX step_instance_business_key ON step_instance (tenant, business_key, id) WHERE business_key IS NOT NULL;
CREATE INDEX step_instance_finished ON step_instance (finished_at) WHERE status IN ('COMPLETED', 'CANCELLED');

-- One row per entry into a step.
CREATE TABLE step_execution (
    tenant         text    NOT NULL,
    instance       uuid    NOT NULL,
    id             uuid    NOT NULL,
    step_id        text    NOT NULL,
    step_type      text    NOT NULL,
    attempt        integer NOT NULL,
    status         text    NOT NULL,
    started_at     bigint  NOT NULL,
    ended_at       bigint,
    input          json,                    -- also the payload of the execution's job or user task
    output         json,
    failure_reason text,
    work           uuid,                    -- its job or user task; tells a finished job from one that never was
    PRIMARY KEY (tenant, instance, id)
) WITH (fillfactor = 90, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX step_execution_work ON step_execution (tenant, work) WHERE work IS NOT NULL;

-- The queue: unfinished jobs only. A claim, a lease and a retry change nothing but this row.
CREATE TABLE step_job (
    tenant          text    NOT NULL,
    id              uuid    NOT NULL,
    instance        uuid    NOT NULL,
    execution       uuid    NOT NULL,
    definition_id   text    NOT NULL,
    step_id         text    NOT NULL,
    job_type        text    NOT NULL,
    retries         integer NOT NULL,
    created_at      bigint  NOT NULL,
    held            boolean NOT NULL,       -- its instance is failed: neither handed out nor lost
    worker          text    NOT NULL DEFAULT '',
    locked_at       bigint,
    lock_expires_at bigint,                 -- null = nobody has it
    PRIMARY KEY (tenant, id)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX step_job_claimable ON step_job (tenant, job_type, id) WHERE lock_expires_at IS NULL AND NOT held;
CREATE INDEX step_job_leased ON step_job (lock_expires_at) WHERE lock_expires_at IS NOT NULL;

-- The inbox: open user tasks only.
CREATE TABLE step_task (
    tenant             text    NOT NULL,
    id                 uuid    NOT NULL,
    instance           uuid    NOT NULL,
    execution          uuid    NOT NULL,
    definition_id      text    NOT NULL,
    definition_version integer NOT NULL,
    step_id            text    NOT NULL,
    job_type           text    NOT NULL,
    business_key       text,
    created_at         bigint  NOT NULL,
    held               boolean NOT NULL,
    PRIMARY KEY (tenant, id)
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX step_task_type ON step_task (tenant, job_type, id);
CREATE INDEX step_task_definition ON step_task (tenant, definition_id, id);

-- Armed boundary timers only.
CREATE TABLE step_timer (
    tenant     text    NOT NULL,
    id         uuid    NOT NULL,
    instance   uuid    NOT NULL,
    fire_at    bigint  NOT NULL,
    held       boolean NOT NULL,
    not_before bigint  NOT NULL DEFAULT 0,  -- back-off: a node has taken it and may be at work on it
    PRIMARY KEY (tenant, id)
) WITH (fillfactor = 85, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX step_timer_due ON step_timer (greatest(fire_at, not_before)) WHERE NOT held;

-- Instances that have still to be started because another one has ended. The row is named like the instance to be, and
-- removed by the transaction that creates it: so it is started once, whoever tries.
CREATE TABLE step_child (
    tenant        text    NOT NULL,
    id            uuid    NOT NULL,
    parent        uuid    NOT NULL,
    definition_id text    NOT NULL,
    business_key  text,
    variables     json    NOT NULL,
    not_before    bigint  NOT NULL,
    attempts      integer NOT NULL DEFAULT 0,
    PRIMARY KEY (tenant, id)
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX step_child_due ON step_child (not_before);

DO $$
BEGIN
    ALTER TABLE step_execution ALTER COLUMN input SET COMPRESSION lz4, ALTER COLUMN output SET COMPRESSION lz4;
    ALTER TABLE step_definition ALTER COLUMN source SET COMPRESSION lz4;
EXCEPTION WHEN feature_not_supported THEN
    NULL;
END
$$;
