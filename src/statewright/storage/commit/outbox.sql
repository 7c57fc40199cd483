-- Tells what a transaction of a tenant that records has written: a row for each version, without its document
-- (docs/reference/operations.md#events-out). The parameter lists the transactions of such tenants.
--
-- Rows that are locked are not joined with those that are staged: that would take the square of the time (commit.sql).

-- [writes]
told AS (
    INSERT INTO event_outbox (tenant, at, transaction_id, entity, model, change, from_state, state, transition,
                              attributed_id, attributed_kind, executor_id, executor_kind)
    SELECT locked.tenant, applied.at, locked.next_transaction_id, locked.id, locked.model, locked.change, locked.state,
           CASE locked.change WHEN 'update' THEN locked.next_state ELSE locked.state END,
           CASE locked.change WHEN 'update' THEN locked.next_transition END,
           locked.next_attributed_id, locked.next_attributed_kind, locked.next_executor_id, locked.next_executor_kind
      FROM locked JOIN applied USING (t)
     WHERE locked.change IN ('update', 'delete')
       AND locked.t = ANY (ARRAY(SELECT json_array_elements_text($outbox::json)::int))
     UNION ALL
    SELECT staged.tenant, applied.at, staged.transaction_id, staged.id, staged.model, staged.change, NULL,
           staged.state, staged.transition,
           staged.attributed_id, staged.attributed_kind, staged.executor_id, staged.executor_kind
      FROM staged JOIN applied USING (t)
     WHERE staged.change = 'create'
       AND staged.t = ANY (ARRAY(SELECT json_array_elements_text($outbox::json)::int))
),
