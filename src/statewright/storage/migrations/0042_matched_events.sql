-- What an event must have to wake a task that is compared with it: hashes of the values it may have. By them an event finds
-- the tasks it wakes; those without, also of nodes of the version before this one, are looked at by every event of their topic.
ALTER TABLE process_timer ADD COLUMN matched bigint[];
CREATE INDEX process_timer_unmatched ON process_timer (tenant, language, topic, id) WHERE topic IS NOT NULL AND matched IS NULL;
CREATE INDEX process_timer_matched ON process_timer USING gin (matched) WHERE matched IS NOT NULL;
