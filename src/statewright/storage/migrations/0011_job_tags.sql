-- Jobs whose definition names the tags of the calculation members they are pushed to. Most do not, and those have no entry
-- in the two indexes for the others.
ALTER TABLE step_job ADD COLUMN tags text;              -- as the definition spells them; null = the job type is the tag

DROP INDEX step_job_claimable;
CREATE INDEX step_job_claimable ON step_job (tenant, job_type, id) WHERE lock_expires_at IS NULL AND NOT held AND tags IS NULL;
CREATE INDEX step_job_tagged ON step_job (tenant, job_type, id) WHERE lock_expires_at IS NULL AND NOT held AND tags IS NOT NULL;
CREATE INDEX step_job_tags ON step_job (tenant, tags, job_type, id) WHERE lock_expires_at IS NULL AND NOT held AND tags IS NOT NULL;
