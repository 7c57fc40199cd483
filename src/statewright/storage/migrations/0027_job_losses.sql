-- How often the lease of a job ended without a word of its worker. Nodes of the version before this one count nothing.
ALTER TABLE process_job ADD COLUMN losses integer NOT NULL DEFAULT 0;
