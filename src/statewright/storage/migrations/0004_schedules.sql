-- Scheduled transitions: a durable task per entity, source state and transition (spec/workflows.md §13.1).
--
-- Instants are milliseconds since 1970-01-01T00:00:00Z, the unit in which schedules are written, by the clock of the node that
-- arms or takes the task. Nothing refers to entity: a task outlives its entity, and is dropped when its time comes.

CREATE TABLE scheduled_task (
    tenant         text    NOT NULL,
    entity         uuid    NOT NULL,
    state          text    NOT NULL,            -- the entity must still be in it
    transition     text    NOT NULL,
    model          uuid    NOT NULL,
    fire_at        bigint  NOT NULL,
    timeout_ms     bigint,                      -- tolerated lateness; null = never expires
    armed_at       bigint  NOT NULL,
    armed_in       uuid    NOT NULL,            -- the transaction that armed it: another one means that it was armed again
    principal_id   text    NOT NULL,            -- whom the fire is attributed to
    principal_kind text    NOT NULL,
    not_before     bigint  NOT NULL DEFAULT 0,  -- back-off: a node has taken it and may be at work on it
    attempts       integer NOT NULL DEFAULT 0,
    PRIMARY KEY (tenant, entity, state, transition)
) WITH (fillfactor = 85, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);

-- What is due is one range at the start of the index: tasks that failed again and again move back in it and hide nothing.
CREATE INDEX scheduled_task_due ON scheduled_task (greatest(fire_at, not_before));
