-- Lists of messages and search jobs begin with the newest. The id of a message is a version 1 UUID, whose time stands in
-- three parts of its text, the last one first.
CREATE INDEX message_time ON message (
    tenant, ((substr(id::text, 16, 3) || substr(id::text, 10, 4) || substr(id::text, 1, 8)) COLLATE "C"), id);
CREATE INDEX search_job_created ON search_job (tenant, created_at, id);
