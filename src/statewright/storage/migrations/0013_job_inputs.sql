-- Jobs whose input is made of a definition and a value: which version of the definition, which element of a loop. And how
-- large the value is, so that one claim takes no more than one answer should hold. Nodes of the version before this one
-- leave the defaults, and look at none of it.
ALTER TABLE process_execution ADD COLUMN element integer;                        -- null = the node as a whole
ALTER TABLE process_job ADD COLUMN definition_version integer NOT NULL DEFAULT 0; -- 0 = not known
ALTER TABLE process_job ADD COLUMN input_bytes integer NOT NULL DEFAULT 0;
