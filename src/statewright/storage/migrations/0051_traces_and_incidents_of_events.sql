-- Events tell the trace of the request that wrote the version, and incidents, whichever way they come and go; these by
-- triggers, since a dozen statements open and close them. The instant is taken behind the fence of those who write
-- versions (storage/entities.py), so that no reader has passed it by then. `change` is open or resolve, `entity` the incident.
ALTER TABLE event_outbox ADD COLUMN traceparent text, ADD COLUMN tracestate text;

CREATE FUNCTION tell_incident() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM event_recording WHERE tenant = NEW.tenant AND (enabled OR subscribed)) THEN
        PERFORM pg_advisory_xact_lock_shared(5371, 1);
        INSERT INTO event_outbox (tenant, at, transaction_id, entity, model, change, from_state, state, transition,
                                  attributed_id, attributed_kind, executor_id, executor_kind)
        VALUES (NEW.tenant, now_us(), NEW.id, NEW.id, '00000000-0000-0000-0000-000000000000',
                CASE NEW.status WHEN 'OPEN' THEN 'open' ELSE 'resolve' END,
                CASE NEW.status WHEN 'OPEN' THEN NULL ELSE 'OPEN' END, NEW.status, NULL,
                coalesce(NEW.resolved_by_id, NEW.principal_id), coalesce(NEW.resolved_by_kind, NEW.principal_kind),
                coalesce(NEW.resolved_by_id, NEW.principal_id), coalesce(NEW.resolved_by_kind, NEW.principal_kind));
    END IF;
    RETURN NULL;
END
$$;

CREATE TRIGGER incident_opened AFTER INSERT ON incident
    FOR EACH ROW EXECUTE FUNCTION tell_incident();
CREATE TRIGGER incident_closed AFTER UPDATE OF status ON incident
    FOR EACH ROW WHEN (OLD.status = 'OPEN' AND NEW.status <> 'OPEN') EXECUTE FUNCTION tell_incident();
