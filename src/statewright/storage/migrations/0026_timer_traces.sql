-- The place in a trace (W3C traceparent) at which a timer was armed: its fire links to it.
ALTER TABLE scheduled_task ADD COLUMN trace text;
