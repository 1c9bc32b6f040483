-- reviewed: each trigger that is dropped is created again at once, and counts stored bytes too.
-- The storage quota: `stored_bytes` of a row is what it takes (see src/db/stored-bytes.ts), that of a company their sum.
ALTER TABLE `companies` ADD `storage_quota_bytes` integer DEFAULT 2147483648 NOT NULL;
--> statement-breakpoint
ALTER TABLE `companies` ADD `stored_bytes` integer DEFAULT 0 NOT NULL;
--> statement-breakpoint
ALTER TABLE `companies` ADD `stored_bytes_checked` integer DEFAULT 0 NOT NULL;
--> statement-breakpoint
ALTER TABLE `companies` ADD `audit_counted` integer DEFAULT 0 NOT NULL;
--> statement-breakpoint
ALTER TABLE `companies` ADD `recounted_at` integer DEFAULT 0;
--> statement-breakpoint
-- What is there is counted by the next sweeps, one company at a time; until then nothing is refused.
UPDATE companies SET recounted_at = NULL;
--> statement-breakpoint
ALTER TABLE `clients` ADD `text_bytes` integer GENERATED ALWAYS AS (coalesce(octet_length(company_name), 0) + coalesce(octet_length(first_name), 0) + coalesce(octet_length(last_name), 0) + coalesce(octet_length(email), 0) + coalesce(octet_length(website), 0) + coalesce(octet_length(phone), 0) + coalesce(octet_length(company_name_key), 0) + coalesce(octet_length(first_name_key), 0) + coalesce(octet_length(last_name_key), 0) + coalesce(octet_length(email_key), 0) + coalesce(octet_length(phone_key), 0) + coalesce(octet_length(phone_digits), 0) + coalesce(octet_length(tax_exempt_reason), 0) + coalesce(octet_length(external_id), 0) + coalesce(octet_length(accounting_customer_id), 0)) VIRTUAL;
--> statement-breakpoint
ALTER TABLE `clients` ADD `stored_bytes` integer GENERATED ALWAYS AS (225 + iif(text_bytes > 950, max(text_bytes, 4550), (text_bytes) * 9 / 8) + (coalesce(octet_length(email_key), 0) + coalesce(octet_length(external_id), 0)) * 5 / 4 + 17 * (length(company_name_key)) / 2 + 5 * min(length(company_name_key), 60) / 2 + iif(deleted, 0, 3 * length(search_text) + 7 * min(length(search_text), 200) / 5 + 11 * min(length(search_text), 150) / 10)) VIRTUAL;
--> statement-breakpoint
ALTER TABLE `orders` ADD `text_bytes` integer GENERATED ALWAYS AS (coalesce(octet_length(title), 0) + coalesce(octet_length(description), 0) + coalesce(octet_length(start_date), 0) + coalesce(octet_length(deadline), 0) + coalesce(octet_length(client_notes), 0) + coalesce(octet_length(created_date), 0) + coalesce(octet_length(external_id), 0) + coalesce(octet_length(title_key), 0) + coalesce(octet_length(number_key), 0)) VIRTUAL;
--> statement-breakpoint
ALTER TABLE `orders` ADD `stored_bytes` integer GENERATED ALWAYS AS (337 + text_bytes + iif(text_bytes % 4092 > 2040, 4096 - text_bytes % 4092, iif(text_bytes % 4092 > 1360, 2044 - text_bytes % 4092, text_bytes / 16)) + (coalesce(octet_length(external_id), 0)) * 5 / 4 + 17 * (length(title_key) + length(number_key)) / 2 + 5 * min(length(title_key) + length(number_key), 60) / 2) VIRTUAL;
--> statement-breakpoint
ALTER TABLE `invoices` ADD `stored_bytes` integer GENERATED ALWAYS AS (100 + octet_length(number) + iif(coalesce(octet_length(number), 0) + coalesce(octet_length(tax_exempt_reason), 0) > 950, max(coalesce(octet_length(number), 0) + coalesce(octet_length(tax_exempt_reason), 0), 4550), (coalesce(octet_length(number), 0) + coalesce(octet_length(tax_exempt_reason), 0)) * 9 / 8)) VIRTUAL;
--> statement-breakpoint
ALTER TABLE `invoice_items` ADD `text_bytes` integer GENERATED ALWAYS AS (coalesce(octet_length(title), 0) + coalesce(octet_length(description), 0) + coalesce(octet_length(supplier), 0) + coalesce(octet_length(style), 0) + coalesce(octet_length(color), 0) + coalesce(octet_length(size), 0) + coalesce(octet_length(sku), 0) + coalesce(octet_length(search_text), 0)) VIRTUAL;
--> statement-breakpoint
ALTER TABLE `invoice_items` ADD `stored_bytes` integer GENERATED ALWAYS AS (62 + text_bytes + iif(text_bytes % 4092 > 2040, 4096 - text_bytes % 4092, iif(text_bytes % 4092 > 1360, 2044 - text_bytes % 4092, text_bytes / 16)) + iif(deleted, 0, 48 + 17 * (min(length(search_text), length(title) + 201)) / 2 + 5 * min(min(length(search_text), length(title) + 201), 60) / 2)) VIRTUAL;
--> statement-breakpoint
ALTER TABLE `payments` ADD `stored_bytes` integer GENERATED ALWAYS AS (31 + iif(coalesce(octet_length(method), 0) + coalesce(octet_length(paid_at), 0) + coalesce(octet_length(note), 0) > 950, max(coalesce(octet_length(method), 0) + coalesce(octet_length(paid_at), 0) + coalesce(octet_length(note), 0), 4550), (coalesce(octet_length(method), 0) + coalesce(octet_length(paid_at), 0) + coalesce(octet_length(note), 0)) * 9 / 8)) VIRTUAL;
--> statement-breakpoint
ALTER TABLE `artworks` ADD `stored_bytes` integer GENERATED ALWAYS AS (52 + (coalesce(octet_length(name), 0) + coalesce(octet_length(print_method), 0) + coalesce(octet_length(placements), 0) + coalesce(octet_length(colors), 0) + coalesce(octet_length(preview_url), 0) + coalesce(octet_length(status), 0)) * 17 / 16) VIRTUAL;
--> statement-breakpoint
ALTER TABLE `catalog_items` ADD `text_bytes` integer GENERATED ALWAYS AS (coalesce(octet_length(title), 0) + coalesce(octet_length(description), 0) + coalesce(octet_length(search_text), 0)) VIRTUAL;
--> statement-breakpoint
ALTER TABLE `catalog_items` ADD `stored_bytes` integer GENERATED ALWAYS AS (32 + text_bytes + iif(text_bytes % 4092 > 2040, 4096 - text_bytes % 4092, iif(text_bytes % 4092 > 1360, 2044 - text_bytes % 4092, text_bytes / 16)) + iif(deleted, 0, 48 + 17 * (length(search_text)) / 2 + 5 * min(length(search_text), 60) / 2)) VIRTUAL;
--> statement-breakpoint
ALTER TABLE `thread_contexts` ADD `text_bytes` integer GENERATED ALWAYS AS (coalesce(octet_length(thread_id), 0) + coalesce(octet_length(legacy_thread_id), 0) + coalesce(octet_length(sender_email), 0) + coalesce(octet_length(client_id), 0) + coalesce(octet_length(client_data), 0) + coalesce(octet_length(clients_data), 0) + coalesce(octet_length(orders_data), 0) + coalesce(octet_length(selected_order_id), 0) + coalesce(octet_length(participant_emails), 0) + coalesce(octet_length(participants_data), 0)) VIRTUAL;
--> statement-breakpoint
ALTER TABLE `thread_contexts` ADD `stored_bytes` integer GENERATED ALWAYS AS (70 + text_bytes + iif(text_bytes % 4092 > 2040, 4096 - text_bytes % 4092, iif(text_bytes % 4092 > 1360, 2044 - text_bytes % 4092, text_bytes / 16)) + coalesce(octet_length(thread_id), 0) + coalesce(octet_length(legacy_thread_id), 0) + (max(json_array_length(iif(json_valid(clients_data), clients_data, '[]')), client_id IS NOT NULL) + json_array_length(iif(json_valid(orders_data), orders_data, '[]'))) * (36 + 11 * octet_length(thread_id) / 5)) VIRTUAL;
--> statement-breakpoint
ALTER TABLE `email_threads` ADD `stored_bytes` integer GENERATED ALWAYS AS (410 + 16 * octet_length(account_email) / 5 + 21 * octet_length(legacy_thread_id) / 10) VIRTUAL;
--> statement-breakpoint
ALTER TABLE `accounting_outbox` ADD `stored_bytes` integer GENERATED ALWAYS AS (iif(state = 'done', 0, 90 + (coalesce(octet_length(operation), 0) + coalesce(octet_length(state), 0) + coalesce(octet_length(request_id), 0) + coalesce(octet_length(request_body), 0) + coalesce(octet_length(last_error), 0)) * 17 / 16)) VIRTUAL;
--> statement-breakpoint
ALTER TABLE `accounting_links` ADD `stored_bytes` integer GENERATED ALWAYS AS (20 + (coalesce(octet_length(external_id), 0) + coalesce(octet_length(sync_token), 0) + coalesce(octet_length(customer_id), 0)) * 9 / 8) VIRTUAL;
--> statement-breakpoint
ALTER TABLE `webhook_deliveries` ADD `stored_bytes` integer GENERATED ALWAYS AS (54 + 2 * (coalesce(octet_length(endpoint_id), 0) + coalesce(octet_length(type), 0) + coalesce(octet_length(entity_id), 0)) + (coalesce(octet_length(last_error), 0)) * 9 / 8) VIRTUAL;
--> statement-breakpoint
ALTER TABLE `audit_log` ADD `stored_bytes` integer GENERATED ALWAYS AS (75 + octet_length(request_id) * 13 / 12 + 2 * (coalesce(octet_length(action), 0) + coalesce(octet_length(entity_id), 0))) VIRTUAL;
--> statement-breakpoint
ALTER TABLE `idempotency_keys` ADD `text_bytes` integer GENERATED ALWAYS AS (coalesce(octet_length(key), 0) + coalesce(octet_length(fingerprint), 0) + coalesce(octet_length(result), 0)) VIRTUAL;
--> statement-breakpoint
ALTER TABLE `idempotency_keys` ADD `stored_bytes` integer GENERATED ALWAYS AS (58 + text_bytes + iif(text_bytes % 4092 > 2040, 4096 - text_bytes % 4092, iif(text_bytes % 4092 > 1360, 2044 - text_bytes % 4092, text_bytes / 16)) + octet_length(key)) VIRTUAL;
--> statement-breakpoint
-- Where a trigger changes the company’s row anyway, it counts as well: no further row is written.
DROP TRIGGER clients_insert;
--> statement-breakpoint
CREATE TRIGGER clients_insert AFTER INSERT ON clients BEGIN
  UPDATE companies SET client_count = client_count + 1 - new.deleted, last_client_id = max(last_client_id, new.id),
      last_change = last_change + 1, stored_bytes = stored_bytes + new.stored_bytes
    WHERE id = new.company_id;
  INSERT INTO changes (company_id, sequence, type, entity_id, operation, version, at, previous_updated_at)
    SELECT id, last_change, 'clients', new.id, iif(new.deleted, 'delete', 'create'), new.version, CAST(unixepoch('subsec') * 1000 AS INTEGER), NULL
    FROM companies WHERE id = new.company_id;
  INSERT INTO client_blocks (company_id, block, live, version) VALUES (new.company_id, new.id >> 12, 1 - new.deleted, 1)
    ON CONFLICT DO UPDATE SET live = live + 1 - new.deleted, version = version + 1;
  INSERT INTO clients_fts (rowid, text, digits)
    SELECT (slot << 53) | new.id, new.search_text, new.phone_digits FROM companies WHERE id = new.company_id AND new.deleted = 0;
  INSERT INTO clients_grams (rowid, grams)
    SELECT (slot << 53) | new.id, (
      SELECT group_concat(slot || 'x' || hex(substr(text, key + 1, 1)) || block || slot || 'x' || hex(substr(text, key + 1, 2)) || block, '')
      FROM json_each('[' || rtrim(replace(hex(zeroblob(length(text))), '00', '0,'), ',') || ']'))
    FROM (SELECT slot, new.search_text || char(31) || new.phone_digits AS text, printf('x%013d ', new.id >> 12) AS block
      FROM companies WHERE id = new.company_id AND new.deleted = 0 LIMIT 1);
  INSERT INTO client_names_fts (rowid, text, spaced)
    SELECT (slot << 53) | new.id, new.company_name_key, (
      SELECT char(30) || group_concat(substr(new.company_name_key, key + 1, 1), char(30)) || char(30)
      FROM json_each('[' || rtrim(replace(hex(zeroblob(length(new.company_name_key))), '00', '0,'), ',') || ']'))
    FROM companies WHERE id = new.company_id;
END;
--> statement-breakpoint
DROP TRIGGER orders_insert;
--> statement-breakpoint
CREATE TRIGGER orders_insert AFTER INSERT ON orders BEGIN
  UPDATE companies SET order_count = order_count + 1 - new.deleted, last_order_id = max(last_order_id, new.id),
      last_change = last_change + 1, stored_bytes = stored_bytes + new.stored_bytes
    WHERE id = new.company_id;
  INSERT INTO changes (company_id, sequence, type, entity_id, operation, version, at, previous_updated_at)
    SELECT id, last_change, 'orders', new.id, iif(new.deleted, 'delete', 'create'), new.version, CAST(unixepoch('subsec') * 1000 AS INTEGER), NULL
    FROM companies WHERE id = new.company_id;
  INSERT INTO order_counts (company_id, client_id, status_id, created_date, count)
    SELECT new.company_id, client, coalesce(new.order_status_id, 0), day, 1
    FROM (SELECT 0 AS client, new.created_date AS day UNION ALL SELECT 0, '' UNION ALL SELECT new.client_id, '')
    WHERE new.deleted = 0
    ON CONFLICT DO UPDATE SET count = count + 1;
  INSERT INTO orders_fts (rowid, text, spaced)
    SELECT (slot << 53) | new.id, text, (
      SELECT char(30) || group_concat(substr(text, key + 1, 1), char(30)) || char(30)
      FROM json_each('[' || rtrim(replace(hex(zeroblob(length(text))), '00', '0,'), ',') || ']'))
    FROM (SELECT slot, new.title_key || char(31) || new.number_key AS text FROM companies WHERE id = new.company_id LIMIT 1);
END;
--> statement-breakpoint
DROP TRIGGER email_threads_create;
--> statement-breakpoint
CREATE TRIGGER email_threads_create AFTER INSERT ON email_threads BEGIN
  UPDATE companies SET last_change = last_change + 1, stored_bytes = stored_bytes + new.stored_bytes WHERE id = new.company_id;
  INSERT INTO changes (company_id, sequence, type, entity_id, operation, version, at, previous_updated_at)
    SELECT id, last_change, 'email_threads', new.id, iif(new.deleted, 'delete', 'create'), new.revision, CAST(unixepoch('subsec') * 1000 AS INTEGER), NULL
    FROM companies WHERE id = new.company_id;
END;
--> statement-breakpoint
DROP TRIGGER clients_change;
--> statement-breakpoint
CREATE TRIGGER clients_change AFTER UPDATE OF version ON clients WHEN new.version <> old.version BEGIN
  UPDATE companies SET last_change = last_change + 1,
      stored_bytes = stored_bytes + new.stored_bytes - old.stored_bytes WHERE id = new.company_id;
  INSERT INTO changes (company_id, sequence, type, entity_id, operation, version, at, previous_updated_at)
    SELECT id, last_change, 'clients', new.id, iif(new.deleted, 'delete', 'update'), new.version, CAST(unixepoch('subsec') * 1000 AS INTEGER), old.updated_at
    FROM companies WHERE id = new.company_id;
END;
--> statement-breakpoint
DROP TRIGGER orders_change;
--> statement-breakpoint
CREATE TRIGGER orders_change AFTER UPDATE OF version ON orders WHEN new.version <> old.version BEGIN
  UPDATE companies SET last_change = last_change + 1,
      stored_bytes = stored_bytes + new.stored_bytes - old.stored_bytes WHERE id = new.company_id;
  INSERT INTO changes (company_id, sequence, type, entity_id, operation, version, at, previous_updated_at)
    SELECT id, last_change, 'orders', new.id, iif(new.deleted, 'delete', 'update'), new.version, CAST(unixepoch('subsec') * 1000 AS INTEGER), old.updated_at
    FROM companies WHERE id = new.company_id;
END;
--> statement-breakpoint
DROP TRIGGER invoices_insert;
--> statement-breakpoint
CREATE TRIGGER invoices_insert AFTER INSERT ON invoices BEGIN
  UPDATE companies SET stored_bytes = stored_bytes + new.stored_bytes,
      last_invoice_id = max(last_invoice_id, new.id), last_invoice_number = iif(
      new.number NOT GLOB '*[^0-9]*' AND length(new.number) BETWEEN 1 AND 15,
      max(last_invoice_number, CAST(new.number AS INTEGER)), last_invoice_number)
    WHERE id = new.company_id;
END;
--> statement-breakpoint
DROP TRIGGER payments_insert;
--> statement-breakpoint
CREATE TRIGGER payments_insert AFTER INSERT ON payments BEGIN
  UPDATE companies SET stored_bytes = stored_bytes + new.stored_bytes, last_payment_id = max(last_payment_id, new.id) WHERE id = new.company_id;
END;
--> statement-breakpoint
CREATE TRIGGER clients_stored_update AFTER UPDATE ON clients WHEN new.version = old.version AND new.stored_bytes <> old.stored_bytes BEGIN
  UPDATE companies SET stored_bytes = stored_bytes + new.stored_bytes - old.stored_bytes WHERE id = new.company_id;
END;
--> statement-breakpoint
CREATE TRIGGER clients_stored_delete AFTER DELETE ON clients BEGIN
  UPDATE companies SET stored_bytes = stored_bytes - old.stored_bytes WHERE id = old.company_id;
END;
--> statement-breakpoint
CREATE TRIGGER orders_stored_update AFTER UPDATE ON orders WHEN new.version = old.version AND new.stored_bytes <> old.stored_bytes BEGIN
  UPDATE companies SET stored_bytes = stored_bytes + new.stored_bytes - old.stored_bytes WHERE id = new.company_id;
END;
--> statement-breakpoint
CREATE TRIGGER orders_stored_delete AFTER DELETE ON orders BEGIN
  UPDATE companies SET stored_bytes = stored_bytes - old.stored_bytes WHERE id = old.company_id;
END;
--> statement-breakpoint
CREATE TRIGGER invoices_stored_update AFTER UPDATE ON invoices WHEN new.stored_bytes <> old.stored_bytes BEGIN
  UPDATE companies SET stored_bytes = stored_bytes + new.stored_bytes - old.stored_bytes WHERE id = new.company_id;
END;
--> statement-breakpoint
CREATE TRIGGER invoices_stored_delete AFTER DELETE ON invoices BEGIN
  UPDATE companies SET stored_bytes = stored_bytes - old.stored_bytes WHERE id = old.company_id;
END;
--> statement-breakpoint
CREATE TRIGGER invoice_items_stored_insert AFTER INSERT ON invoice_items BEGIN
  UPDATE companies SET stored_bytes = stored_bytes + new.stored_bytes WHERE id = new.company_id;
END;
--> statement-breakpoint
CREATE TRIGGER invoice_items_stored_update AFTER UPDATE ON invoice_items WHEN new.stored_bytes <> old.stored_bytes BEGIN
  UPDATE companies SET stored_bytes = stored_bytes + new.stored_bytes - old.stored_bytes WHERE id = new.company_id;
END;
--> statement-breakpoint
CREATE TRIGGER invoice_items_stored_delete AFTER DELETE ON invoice_items BEGIN
  UPDATE companies SET stored_bytes = stored_bytes - old.stored_bytes WHERE id = old.company_id;
END;
--> statement-breakpoint
CREATE TRIGGER payments_stored_update AFTER UPDATE ON payments WHEN new.stored_bytes <> old.stored_bytes BEGIN
  UPDATE companies SET stored_bytes = stored_bytes + new.stored_bytes - old.stored_bytes WHERE id = new.company_id;
END;
--> statement-breakpoint
CREATE TRIGGER payments_stored_delete AFTER DELETE ON payments BEGIN
  UPDATE companies SET stored_bytes = stored_bytes - old.stored_bytes WHERE id = old.company_id;
END;
--> statement-breakpoint
CREATE TRIGGER artworks_stored_insert AFTER INSERT ON artworks BEGIN
  UPDATE companies SET stored_bytes = stored_bytes + new.stored_bytes WHERE id = new.company_id;
END;
--> statement-breakpoint
CREATE TRIGGER artworks_stored_update AFTER UPDATE ON artworks WHEN new.stored_bytes <> old.stored_bytes BEGIN
  UPDATE companies SET stored_bytes = stored_bytes + new.stored_bytes - old.stored_bytes WHERE id = new.company_id;
END;
--> statement-breakpoint
CREATE TRIGGER artworks_stored_delete AFTER DELETE ON artworks BEGIN
  UPDATE companies SET stored_bytes = stored_bytes - old.stored_bytes WHERE id = old.company_id;
END;
--> statement-breakpoint
CREATE TRIGGER catalog_items_stored_insert AFTER INSERT ON catalog_items BEGIN
  UPDATE companies SET stored_bytes = stored_bytes + new.stored_bytes WHERE id = new.company_id;
END;
--> statement-breakpoint
CREATE TRIGGER catalog_items_stored_update AFTER UPDATE ON catalog_items WHEN new.stored_bytes <> old.stored_bytes BEGIN
  UPDATE companies SET stored_bytes = stored_bytes + new.stored_bytes - old.stored_bytes WHERE id = new.company_id;
END;
--> statement-breakpoint
CREATE TRIGGER catalog_items_stored_delete AFTER DELETE ON catalog_items BEGIN
  UPDATE companies SET stored_bytes = stored_bytes - old.stored_bytes WHERE id = old.company_id;
END;
--> statement-breakpoint
CREATE TRIGGER thread_contexts_stored_insert AFTER INSERT ON thread_contexts BEGIN
  UPDATE companies SET stored_bytes = stored_bytes + new.stored_bytes WHERE id = new.company_id;
END;
--> statement-breakpoint
CREATE TRIGGER thread_contexts_stored_update AFTER UPDATE ON thread_contexts WHEN new.stored_bytes <> old.stored_bytes BEGIN
  UPDATE companies SET stored_bytes = stored_bytes + new.stored_bytes - old.stored_bytes WHERE id = new.company_id;
END;
--> statement-breakpoint
CREATE TRIGGER thread_contexts_stored_delete AFTER DELETE ON thread_contexts BEGIN
  UPDATE companies SET stored_bytes = stored_bytes - old.stored_bytes WHERE id = old.company_id;
END;
--> statement-breakpoint
CREATE TRIGGER email_threads_stored_update AFTER UPDATE ON email_threads WHEN new.stored_bytes <> old.stored_bytes BEGIN
  UPDATE companies SET stored_bytes = stored_bytes + new.stored_bytes - old.stored_bytes WHERE id = new.company_id;
END;
--> statement-breakpoint
CREATE TRIGGER email_threads_stored_delete AFTER DELETE ON email_threads BEGIN
  UPDATE companies SET stored_bytes = stored_bytes - old.stored_bytes WHERE id = old.company_id;
END;
--> statement-breakpoint
CREATE TRIGGER accounting_outbox_stored_insert AFTER INSERT ON accounting_outbox WHEN new.stored_bytes > 0 BEGIN
  UPDATE companies SET stored_bytes = stored_bytes + new.stored_bytes WHERE id = new.company_id;
END;
--> statement-breakpoint
CREATE TRIGGER accounting_outbox_stored_update AFTER UPDATE ON accounting_outbox WHEN new.stored_bytes <> old.stored_bytes BEGIN
  UPDATE companies SET stored_bytes = stored_bytes + new.stored_bytes - old.stored_bytes WHERE id = new.company_id;
END;
--> statement-breakpoint
CREATE TRIGGER accounting_outbox_stored_delete AFTER DELETE ON accounting_outbox WHEN old.stored_bytes > 0 BEGIN
  UPDATE companies SET stored_bytes = stored_bytes - old.stored_bytes WHERE id = old.company_id;
END;
--> statement-breakpoint
CREATE TRIGGER accounting_links_stored_insert AFTER INSERT ON accounting_links BEGIN
  UPDATE companies SET stored_bytes = stored_bytes + new.stored_bytes WHERE id = new.company_id;
END;
--> statement-breakpoint
CREATE TRIGGER accounting_links_stored_update AFTER UPDATE ON accounting_links WHEN new.stored_bytes <> old.stored_bytes BEGIN
  UPDATE companies SET stored_bytes = stored_bytes + new.stored_bytes - old.stored_bytes WHERE id = new.company_id;
END;
--> statement-breakpoint
CREATE TRIGGER accounting_links_stored_delete AFTER DELETE ON accounting_links BEGIN
  UPDATE companies SET stored_bytes = stored_bytes - old.stored_bytes WHERE id = old.company_id;
END;
--> statement-breakpoint
CREATE TRIGGER webhook_deliveries_stored_insert AFTER INSERT ON webhook_deliveries BEGIN
  UPDATE companies SET stored_bytes = stored_bytes + new.stored_bytes WHERE id = new.company_id;
END;
--> statement-breakpoint
CREATE TRIGGER webhook_deliveries_stored_update AFTER UPDATE ON webhook_deliveries WHEN new.stored_bytes <> old.stored_bytes BEGIN
  UPDATE companies SET stored_bytes = stored_bytes + new.stored_bytes - old.stored_bytes WHERE id = new.company_id;
END;
--> statement-breakpoint
CREATE TRIGGER webhook_deliveries_stored_delete AFTER DELETE ON webhook_deliveries BEGIN
  UPDATE companies SET stored_bytes = stored_bytes - old.stored_bytes WHERE id = old.company_id;
END;
--> statement-breakpoint
DROP TRIGGER companies_moving_update;
--> statement-breakpoint
CREATE TRIGGER companies_moving_update BEFORE UPDATE OF name, suspended, accounting_sync_enabled, deliveries_paused, mail_quota_bytes, storage_quota_bytes,
  last_client_id, last_order_id, last_invoice_id, last_invoice_number, last_payment_id, last_change ON companies
WHEN EXISTS (SELECT 1 FROM company_guards WHERE company_id = new.id AND (state = 'frozen' OR state = 'away'
  AND (new.accounting_sync_enabled <> old.accounting_sync_enabled OR new.deliveries_paused <> old.deliveries_paused
    OR new.mail_quota_bytes <> old.mail_quota_bytes
    OR new.storage_quota_bytes <> old.storage_quota_bytes))) BEGIN
  SELECT RAISE(ABORT, 'company is moving');
END;
--> statement-breakpoint
-- Entries of the audit log and idempotent results are counted by the batch that writes them (src/db/quota.ts) and the sweep
-- that removes them; only while a company is copied into this database each is counted by itself.
CREATE TRIGGER audit_log_stored_insert AFTER INSERT ON audit_log
WHEN EXISTS (SELECT 1 FROM companies WHERE id = new.company_id AND last_change >= 4503599627370496) BEGIN
  UPDATE companies SET stored_bytes = stored_bytes + new.stored_bytes, audit_counted = new.id WHERE id = new.company_id;
END;
--> statement-breakpoint
CREATE TRIGGER idempotency_keys_stored_insert AFTER INSERT ON idempotency_keys
WHEN EXISTS (SELECT 1 FROM companies WHERE id = new.company_id AND last_change >= 4503599627370496) BEGIN
  UPDATE companies SET stored_bytes = stored_bytes + new.stored_bytes WHERE id = new.company_id;
END;
--> statement-breakpoint
CREATE TRIGGER idempotency_keys_stored_update AFTER UPDATE ON idempotency_keys
WHEN EXISTS (SELECT 1 FROM companies WHERE id = new.company_id AND last_change >= 4503599627370496) AND new.stored_bytes <> old.stored_bytes BEGIN
  UPDATE companies SET stored_bytes = stored_bytes + new.stored_bytes - old.stored_bytes WHERE id = new.company_id;
END;
--> statement-breakpoint
CREATE TRIGGER idempotency_keys_stored_delete AFTER DELETE ON idempotency_keys
WHEN EXISTS (SELECT 1 FROM companies WHERE id = old.company_id AND last_change >= 4503599627370496) BEGIN
  UPDATE companies SET stored_bytes = stored_bytes - old.stored_bytes WHERE id = old.company_id;
END;
--> statement-breakpoint
PRAGMA optimize;
