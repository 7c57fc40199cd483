-- The node that retries an incident: with its end the claim ends, too.
ALTER TABLE incident ADD COLUMN retried_by text;
