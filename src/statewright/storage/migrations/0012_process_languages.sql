-- The tables of the step engine become those of every process language: instances, executions, jobs, user tasks, timers,
-- instances to be started and definitions say which language they are of. Rows that are there are of the step language.

ALTER TABLE step_definition RENAME TO process_definition;
ALTER TABLE step_instance RENAME TO process_instance;
ALTER TABLE step_execution RENAME TO process_execution;
ALTER TABLE step_job RENAME TO process_job;
ALTER TABLE step_task RENAME TO process_task;
ALTER TABLE step_timer RENAME TO process_timer;
ALTER TABLE step_child RENAME TO process_child;

ALTER TABLE process_execution RENAME COLUMN step_id TO node_id;
ALTER TABLE process_execution RENAME COLUMN step_type TO node_type;
ALTER TABLE process_job RENAME COLUMN step_id TO node_id;
ALTER TABLE process_task RENAME COLUMN step_id TO node_id;

-- The default is for nodes of the version before this one, which write through the views below.
ALTER TABLE process_definition ADD COLUMN language text NOT NULL DEFAULT 'steps';
ALTER TABLE process_instance ADD COLUMN language text NOT NULL DEFAULT 'steps';
ALTER TABLE process_execution ADD COLUMN language text NOT NULL DEFAULT 'steps';
ALTER TABLE process_job ADD COLUMN language text NOT NULL DEFAULT 'steps';
ALTER TABLE process_task ADD COLUMN language text NOT NULL DEFAULT 'steps';
ALTER TABLE process_timer ADD COLUMN language text NOT NULL DEFAULT 'steps';
ALTER TABLE process_child ADD COLUMN language text NOT NULL DEFAULT 'steps';

-- Definitions of two languages may have one name. Ids of everything else are unique whatever the language.
ALTER TABLE process_definition DROP CONSTRAINT step_definition_pkey;
ALTER TABLE process_definition ADD PRIMARY KEY (tenant, language, id, version);
ALTER INDEX step_instance_pkey RENAME TO process_instance_pkey;
ALTER INDEX step_execution_pkey RENAME TO process_execution_pkey;
ALTER INDEX step_job_pkey RENAME TO process_job_pkey;
ALTER INDEX step_task_pkey RENAME TO process_task_pkey;
ALTER INDEX step_timer_pkey RENAME TO process_timer_pkey;
ALTER INDEX step_child_pkey RENAME TO process_child_pkey;

ALTER INDEX step_execution_work RENAME TO process_execution_work;
ALTER INDEX step_job_leased RENAME TO process_job_leased;
ALTER INDEX step_timer_due RENAME TO process_timer_due;
ALTER INDEX step_child_due RENAME TO process_child_due;

DROP INDEX step_instance_definition;
CREATE INDEX process_instance_definition ON process_instance (tenant, language, definition_id, id);
DROP INDEX step_instance_business_key;
CREATE INDEX process_instance_business_key ON process_instance (tenant, language, business_key, id) WHERE business_key IS NOT NULL;
DROP INDEX step_instance_finished;
CREATE INDEX process_instance_finished ON process_instance (language, finished_at) WHERE status IN ('COMPLETED', 'CANCELLED');

DROP INDEX step_job_claimable;
CREATE INDEX process_job_claimable ON process_job (tenant, language, job_type, id)
 WHERE lock_expires_at IS NULL AND NOT held AND tags IS NULL;
DROP INDEX step_job_tagged;
CREATE INDEX process_job_tagged ON process_job (tenant, language, job_type, id)
 WHERE lock_expires_at IS NULL AND NOT held AND tags IS NOT NULL;
DROP INDEX step_job_tags;
CREATE INDEX process_job_tags ON process_job (tenant, language, tags, job_type, id)
 WHERE lock_expires_at IS NULL AND NOT held AND tags IS NOT NULL;

DROP INDEX step_task_type;
CREATE INDEX process_task_type ON process_task (tenant, language, job_type, id);
DROP INDEX step_task_definition;
CREATE INDEX process_task_definition ON process_task (tenant, language, definition_id, id);

-- While nodes are replaced one by one, those of the version before this one go on reading and writing under the old names.
-- They take rows by ctid. Nothing of this version uses the views.
CREATE VIEW step_definition AS
SELECT tenant, id, version, name, description, content, uploaded_at, source FROM process_definition WHERE language = 'steps';
CREATE VIEW step_instance AS
SELECT tenant, id, definition_id, status, business_key, finished_at FROM process_instance WHERE language = 'steps';
CREATE VIEW step_execution AS
SELECT tenant, instance, id, node_id AS step_id, node_type AS step_type, attempt, status, started_at, ended_at, input, output,
       failure_reason, work
  FROM process_execution WHERE language = 'steps';
CREATE VIEW step_job AS
SELECT ctid, tenant, id, instance, execution, definition_id, node_id AS step_id, job_type, retries, created_at, held, worker,
       locked_at, lock_expires_at, tags
  FROM process_job WHERE language = 'steps';
CREATE VIEW step_task AS
SELECT tenant, id, instance, execution, definition_id, definition_version, node_id AS step_id, job_type, business_key, created_at,
       held
  FROM process_task WHERE language = 'steps';
CREATE VIEW step_timer AS
SELECT ctid, tenant, id, instance, fire_at, held, not_before FROM process_timer WHERE language = 'steps';
CREATE VIEW step_child AS
SELECT ctid, tenant, id, parent, definition_id, business_key, variables, not_before, attempts FROM process_child WHERE language = 'steps';
