-- Since when suspensions hold, and what was under way when they began. Instants in microseconds of the epoch.

ALTER TABLE suspension ADD COLUMN effective_at bigint;   -- from then on every node acts by it
UPDATE suspension SET effective_at = since;
CREATE INDEX suspension_unconfirmed ON suspension (revision) WHERE effective_at IS NULL AND ended_at IS NULL;

ALTER TABLE cluster_node ADD COLUMN runs_under_way text NOT NULL DEFAULT '{}';   -- runs that began before a suspension, by its id, as JSON
