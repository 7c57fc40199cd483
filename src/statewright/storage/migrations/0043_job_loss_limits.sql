-- How often the lease of a job may end without a word of its worker, where its definition says; else as its language has it.
-- Nodes of the version before this one hand such jobs out as their language has it.
ALTER TABLE process_job ADD COLUMN max_losses integer;
