-- Bulk jobs: one operation on many entities, whose ids are frozen first. Instants in microseconds of the epoch.
CREATE TABLE bulk_job (
    tenant          text    NOT NULL,
    id              uuid    NOT NULL,
    status          text    NOT NULL CHECK (status IN ('FREEZING', 'READY', 'RUNNING', 'PAUSED', 'STOPPED', 'COMPLETED', 'CANCELLED')),
    operation       text    NOT NULL,
    plan            text    NOT NULL,   -- JSON: what is done to which entities (operations/bulk_jobs.py)
    reason          text,
    rate            integer NOT NULL,
    concurrency     integer NOT NULL,
    stop_after      integer,
    created_at      bigint  NOT NULL,
    created_by_id   text    NOT NULL,
    created_by_kind text    NOT NULL,
    runner_id       text    NOT NULL,   -- as whom it runs
    runner_kind     text    NOT NULL,
    runner_roles    text[]  NOT NULL,
    instant         bigint,             -- of the freeze
    total           integer,
    running         integer NOT NULL DEFAULT 0,
    succeeded       integer NOT NULL DEFAULT 0,
    skipped         integer NOT NULL DEFAULT 0,
    failed          integer NOT NULL DEFAULT 0,
    failures        integer NOT NULL DEFAULT 0,   -- since it was started or resumed
    ran_us          bigint  NOT NULL DEFAULT 0,   -- likewise
    started_at      bigint,
    finished_at     bigint,
    failure         text,
    worker          text,
    lease_until     bigint  NOT NULL DEFAULT 0,
    PRIMARY KEY (tenant, id)
);
CREATE INDEX bulk_job_active ON bulk_job (created_at) WHERE status IN ('FREEZING', 'RUNNING');
CREATE INDEX bulk_job_finished ON bulk_job (finished_at) WHERE finished_at IS NOT NULL;

-- The frozen ids, a thousand in a row.
CREATE TABLE bulk_part (
    tenant text    NOT NULL,
    job    uuid    NOT NULL,
    part   integer NOT NULL,
    ids    uuid[]  NOT NULL,
    PRIMARY KEY (tenant, job, part)
);

-- What became of an item, or would become of it. Those without a row are pending.
CREATE TABLE bulk_item (
    tenant         text    NOT NULL,
    job            uuid    NOT NULL,
    n              integer NOT NULL,
    entity         uuid    NOT NULL,
    status         text    NOT NULL,
    judged         boolean NOT NULL DEFAULT false,   -- by a dry run
    code           text,
    message        text,
    transaction_id uuid,
    at             bigint  NOT NULL,
    PRIMARY KEY (tenant, job, n)
);
CREATE INDEX bulk_item_unplain ON bulk_item (tenant, job, status, n) WHERE status <> 'SUCCEEDED';
