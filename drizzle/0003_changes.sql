-- Written by hand. Triggers that write the feed of changes, and what follows from a row for others.
-- The feed of created clients and orders is written with their counters (0001).
CREATE TRIGGER clients_change AFTER UPDATE OF version ON clients WHEN new.version <> old.version BEGIN
  UPDATE companies SET last_change = last_change + 1 WHERE id = new.company_id;
  INSERT INTO changes (company_id, sequence, type, entity_id, operation, version, at, previous_updated_at)
    SELECT id, last_change, 'clients', new.id, iif(new.deleted, 'delete', 'update'), new.version, CAST(unixepoch('subsec') * 1000 AS INTEGER), old.updated_at
    FROM companies WHERE id = new.company_id;
END;
--> statement-breakpoint
CREATE TRIGGER orders_change AFTER UPDATE OF version ON orders WHEN new.version <> old.version BEGIN
  UPDATE companies SET last_change = last_change + 1 WHERE id = new.company_id;
  INSERT INTO changes (company_id, sequence, type, entity_id, operation, version, at, previous_updated_at)
    SELECT id, last_change, 'orders', new.id, iif(new.deleted, 'delete', 'update'), new.version, CAST(unixepoch('subsec') * 1000 AS INTEGER), old.updated_at
    FROM companies WHERE id = new.company_id;
END;
--> statement-breakpoint
CREATE TRIGGER email_threads_create AFTER INSERT ON email_threads BEGIN
  UPDATE companies SET last_change = last_change + 1 WHERE id = new.company_id;
  INSERT INTO changes (company_id, sequence, type, entity_id, operation, version, at, previous_updated_at)
    SELECT id, last_change, 'email_threads', new.id, iif(new.deleted, 'delete', 'create'), new.revision, CAST(unixepoch('subsec') * 1000 AS INTEGER), NULL
    FROM companies WHERE id = new.company_id;
END;
--> statement-breakpoint
-- A sync that changes nothing but the time of the sync is no change. Texts in segments (`@`) may have changed.
CREATE TRIGGER email_threads_change AFTER UPDATE OF revision ON email_threads
WHEN new.content_revision <> old.content_revision OR new.deleted <> old.deleted
  OR new.mail_thread_id IS NOT old.mail_thread_id OR new.subject IS NOT old.subject
  OR new.snippet IS NOT old.snippet OR new.mail_history_id IS NOT old.mail_history_id
  OR new.first_message_at IS NOT old.first_message_at OR new.last_message_at IS NOT old.last_message_at
  OR (new.revision <> old.revision AND '@' IN (coalesce(new.mail_thread_id, ''), coalesce(new.subject, ''),
    coalesce(new.snippet, ''), coalesce(new.mail_history_id, ''))) BEGIN
  UPDATE companies SET last_change = last_change + 1 WHERE id = new.company_id;
  INSERT INTO changes (company_id, sequence, type, entity_id, operation, version, at, previous_updated_at)
    SELECT id, last_change, 'email_threads', new.id, iif(new.deleted, 'delete', 'update'), new.revision, CAST(unixepoch('subsec') * 1000 AS INTEGER), old.updated_at
    FROM companies WHERE id = new.company_id;
END;
--> statement-breakpoint
CREATE TRIGGER payments_insert AFTER INSERT ON payments BEGIN
  UPDATE companies SET last_payment_id = new.id WHERE id = new.company_id AND last_payment_id < new.id;
END;
--> statement-breakpoint
-- UNION removes what is named twice: OR IGNORE would not, since an upsert's own conflict clause takes its place.
CREATE TRIGGER thread_contexts_insert AFTER INSERT ON thread_contexts BEGIN
  INSERT INTO thread_context_links (company_id, entity, entity_id, thread_id)
    SELECT new.company_id, 'order', CAST(id AS INTEGER), new.thread_id
      FROM (SELECT iif(type = 'object', value ->> '$.id', value) AS id
        FROM json_each(iif(json_type(new.orders_data) = 'array', new.orders_data, json_array(json(new.orders_data)))))
      WHERE CAST(id AS INTEGER) > 0
    UNION SELECT new.company_id, 'client', CAST(id AS INTEGER), new.thread_id
      FROM (SELECT new.client_id AS id UNION ALL SELECT iif(type = 'object', value ->> '$.id', value)
        FROM json_each(iif(json_type(new.clients_data) = 'array', new.clients_data, json_array(json(new.clients_data)))))
      WHERE CAST(id AS INTEGER) > 0;
END;
--> statement-breakpoint
CREATE TRIGGER thread_contexts_update AFTER UPDATE OF client_id, clients_data, orders_data ON thread_contexts BEGIN
  DELETE FROM thread_context_links WHERE company_id = old.company_id AND thread_id = old.thread_id;
  INSERT INTO thread_context_links (company_id, entity, entity_id, thread_id)
    SELECT new.company_id, 'order', CAST(id AS INTEGER), new.thread_id
      FROM (SELECT iif(type = 'object', value ->> '$.id', value) AS id
        FROM json_each(iif(json_type(new.orders_data) = 'array', new.orders_data, json_array(json(new.orders_data)))))
      WHERE CAST(id AS INTEGER) > 0
    UNION SELECT new.company_id, 'client', CAST(id AS INTEGER), new.thread_id
      FROM (SELECT new.client_id AS id UNION ALL SELECT iif(type = 'object', value ->> '$.id', value)
        FROM json_each(iif(json_type(new.clients_data) = 'array', new.clients_data, json_array(json(new.clients_data)))))
      WHERE CAST(id AS INTEGER) > 0;
END;
--> statement-breakpoint
CREATE TRIGGER thread_contexts_delete AFTER DELETE ON thread_contexts BEGIN
  DELETE FROM thread_context_links WHERE company_id = old.company_id AND thread_id = old.thread_id;
END;
--> statement-breakpoint
PRAGMA optimize;
