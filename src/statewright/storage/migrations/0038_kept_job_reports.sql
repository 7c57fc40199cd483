-- What workers report of jobs while these are suspended stays in the row of the job until the suspension has ended. Such a row has no
-- lease and rests for ever, so that nodes of the version before this one do not hand the job out either.

ALTER TABLE process_job ADD COLUMN kept_under  uuid;     -- the suspension; null = nothing is kept
ALTER TABLE process_job ADD COLUMN report      text;     -- JSON
ALTER TABLE process_job ADD COLUMN reported_at bigint;   -- microseconds of the epoch
ALTER TABLE process_job ADD COLUMN taken_until bigint;   -- a node is just applying it

CREATE INDEX process_job_kept ON process_job (tenant, kept_under, reported_at) WHERE kept_under IS NOT NULL;
