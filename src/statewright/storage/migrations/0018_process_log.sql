-- Logs of instances of languages that have one, and instances that others wait for.

CREATE TABLE process_event (
    tenant text NOT NULL,
    instance uuid NOT NULL,
    number bigint NOT NULL,
    event json NOT NULL,
    PRIMARY KEY (tenant, instance, number)
);

-- The execution of the parent that goes on when the instance has ended; without one nobody waits.
ALTER TABLE process_child ADD COLUMN execution uuid;

CREATE TABLE process_child_end (
    tenant text NOT NULL,
    language text NOT NULL,
    id uuid NOT NULL,
    parent uuid NOT NULL,
    execution uuid NOT NULL,
    outcome json NOT NULL,
    not_before bigint NOT NULL,
    attempts int NOT NULL DEFAULT 0,
    PRIMARY KEY (tenant, id)
);
CREATE INDEX process_child_end_due ON process_child_end (not_before, id);
