-- Events of logs have their instant, and instances that others wait for may be of an older version of their definition.

ALTER TABLE process_event ADD COLUMN at bigint NOT NULL DEFAULT 0;
ALTER TABLE process_child ADD COLUMN definition_version integer NOT NULL DEFAULT 0;
