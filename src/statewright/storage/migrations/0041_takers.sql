-- Who has begun with work and not said a word since: an entry for each time that a node took it, emptied when a node was through with
-- it, in whatever way. Nodes of the version before this one neither write nor read it, and do not take what is parked: it is not due.

ALTER TABLE scheduled_task    ADD COLUMN takers text[] NOT NULL DEFAULT '{}';
ALTER TABLE process_timer     ADD COLUMN takers text[] NOT NULL DEFAULT '{}';
ALTER TABLE process_child     ADD COLUMN takers text[] NOT NULL DEFAULT '{}';
ALTER TABLE process_child_end ADD COLUMN takers text[] NOT NULL DEFAULT '{}';
ALTER TABLE process_job       ADD COLUMN takers text[] NOT NULL DEFAULT '{}';
ALTER TABLE incident          ADD COLUMN takers text[] NOT NULL DEFAULT '{}';

-- The order of the timers of an instance, which nodes share.
CREATE INDEX process_timer_instance ON process_timer (tenant, instance, fire_at, id);

-- What is parked, for who retries or drops it, and for the sweep of incidents.
CREATE INDEX scheduled_task_parked    ON scheduled_task    (tenant, entity)   WHERE cardinality(takers) >= 3;
CREATE INDEX process_timer_parked     ON process_timer     (tenant, instance) WHERE cardinality(takers) >= 3;
CREATE INDEX process_child_parked     ON process_child     (tenant, parent)   WHERE cardinality(takers) >= 3;
CREATE INDEX process_child_end_parked ON process_child_end (tenant, parent)   WHERE cardinality(takers) >= 3;
CREATE INDEX process_job_parked       ON process_job       (tenant, instance) WHERE cardinality(takers) >= 3;
-- Few jobs have takers, and not because they are due.
CREATE INDEX process_job_taken ON process_job (reported_at) WHERE kept_under IS NOT NULL AND takers <> '{}';
