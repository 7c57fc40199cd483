-- Instances that others wait for stay in this table until their end is told, so that they can be cancelled.
ALTER TABLE process_child ADD COLUMN started boolean NOT NULL DEFAULT false;
ALTER TABLE process_child ADD COLUMN cancelled boolean NOT NULL DEFAULT false;
CREATE INDEX process_child_execution ON process_child (tenant, execution) WHERE execution IS NOT NULL;
