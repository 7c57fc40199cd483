-- Tasks of processes that wait for an event of a name, or for a counter that the instances of a tenant share. They are rows of
-- the timers that time never fires.
ALTER TABLE process_timer ADD COLUMN topic text;
ALTER TABLE process_timer ADD COLUMN counter text;
CREATE INDEX process_timer_topic ON process_timer (tenant, language, topic, id) WHERE topic IS NOT NULL;
CREATE INDEX process_timer_counter ON process_timer (tenant, counter, id) WHERE counter IS NOT NULL;

CREATE TABLE process_counter (
    tenant text   NOT NULL,
    name   text   NOT NULL,
    value  bigint NOT NULL,
    PRIMARY KEY (tenant, name)
);
