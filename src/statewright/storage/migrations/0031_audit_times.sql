-- Events are found by the time of their run: a summary for each range of pages, next to nothing for who adds rows.
CREATE INDEX entity_audit_at ON entity_audit USING brin (at) WITH (pages_per_range = 32, autosummarize = on);
