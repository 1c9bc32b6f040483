-- Written by hand. Full-text tables, and the triggers that keep them, the counters and each company's last ids.
-- Text comes folded from the application (src/db/search.ts), so the tokenizer compares as it is. A rowid is
-- `slot << 53 | id`: a company's rows are one range of rowids, so that a search never walks another company's hits.
-- BEGIN and END in capitals and no CASE in triggers: the remote splitter needs both.
CREATE VIRTUAL TABLE clients_fts USING fts5(text, digits, content='', contentless_delete=1, tokenize='trigram case_sensitive 1');
--> statement-breakpoint
-- Trigrams cannot find one or two characters. These are the tokens `SLOTxHEXxBLOCK` of every one and two characters of a
-- client; a block is 4,096 ids. A row of the vocabulary is the number of clients of one company's block that hold them.
CREATE VIRTUAL TABLE clients_grams USING fts5(grams, content='', contentless_delete=1, detail='none', tokenize='ascii');
--> statement-breakpoint
CREATE VIRTUAL TABLE clients_grams_counts USING fts5vocab('clients_grams', 'row');
--> statement-breakpoint
-- `spaced` has U+001E around every character, so that its trigrams are one (`^A^`) and two (`A^B`) characters of the text.
CREATE VIRTUAL TABLE catalog_items_fts USING fts5(text, spaced, content='', contentless_delete=1, tokenize='trigram case_sensitive 1');
--> statement-breakpoint
CREATE VIRTUAL TABLE invoice_items_fts USING fts5(text, spaced, content='', contentless_delete=1, tokenize='trigram case_sensitive 1');
--> statement-breakpoint
-- An order is found by its title and invoice number, or by its client's name: a changed name is written once, not once
-- for each order. Deleted orders and clients stay in.
CREATE VIRTUAL TABLE orders_fts USING fts5(text, spaced, content='', contentless_delete=1, tokenize='trigram case_sensitive 1');
--> statement-breakpoint
CREATE VIRTUAL TABLE client_names_fts USING fts5(text, spaced, content='', contentless_delete=1, tokenize='trigram case_sensitive 1');
--> statement-breakpoint
CREATE TRIGGER clients_insert AFTER INSERT ON clients BEGIN
  UPDATE companies SET client_count = client_count + 1 - new.deleted, last_client_id = max(last_client_id, new.id),
      last_change = last_change + 1
    WHERE id = new.company_id;
  INSERT INTO changes (company_id, sequence, type, entity_id, operation, version, at, previous_updated_at)
    SELECT id, last_change, 'clients', new.id, iif(new.deleted, 'delete', 'create'), new.version, CAST(unixepoch('subsec') * 1000 AS INTEGER), NULL
    FROM companies WHERE id = new.company_id;
  INSERT INTO client_blocks (company_id, block, live, version) VALUES (new.company_id, new.id >> 12, 1 - new.deleted, 1)
    ON CONFLICT DO UPDATE SET live = live + 1 - new.deleted, version = version + 1;
  INSERT INTO clients_fts (rowid, text, digits)
    SELECT slot << 53 | new.id, new.search_text, new.phone_digits FROM companies WHERE id = new.company_id AND new.deleted = 0;
  INSERT INTO clients_grams (rowid, grams)
    SELECT slot << 53 | new.id, (
      SELECT group_concat(slot || 'x' || hex(substr(text, key + 1, 1)) || block || slot || 'x' || hex(substr(text, key + 1, 2)) || block, '')
      FROM json_each('[' || rtrim(replace(hex(zeroblob(length(text))), '00', '0,'), ',') || ']'))
    FROM (SELECT slot, new.search_text || char(31) || new.phone_digits AS text, printf('x%013d ', new.id >> 12) AS block
      FROM companies WHERE id = new.company_id AND new.deleted = 0 LIMIT 1);
  INSERT INTO client_names_fts (rowid, text, spaced)
    SELECT slot << 53 | new.id, new.company_name_key, (
      SELECT char(30) || group_concat(substr(new.company_name_key, key + 1, 1), char(30)) || char(30)
      FROM json_each('[' || rtrim(replace(hex(zeroblob(length(new.company_name_key))), '00', '0,'), ',') || ']'))
    FROM companies WHERE id = new.company_id;
END;
--> statement-breakpoint
CREATE TRIGGER clients_delete_flag AFTER UPDATE OF deleted ON clients WHEN old.deleted <> new.deleted BEGIN
  UPDATE companies SET client_count = client_count + old.deleted - new.deleted WHERE id = new.company_id;
END;
--> statement-breakpoint
CREATE TRIGGER clients_search AFTER UPDATE ON clients
WHEN old.search_text <> new.search_text OR old.phone_digits <> new.phone_digits OR old.deleted <> new.deleted BEGIN
  UPDATE client_blocks SET live = live + old.deleted - new.deleted, version = version + 1
    WHERE company_id = new.company_id AND block = new.id >> 12;
  DELETE FROM clients_fts WHERE rowid = (SELECT slot << 53 | old.id FROM companies WHERE id = old.company_id AND old.deleted = 0);
  DELETE FROM clients_grams WHERE rowid = (SELECT slot << 53 | old.id FROM companies WHERE id = old.company_id AND old.deleted = 0);
  INSERT INTO clients_fts (rowid, text, digits)
    SELECT slot << 53 | new.id, new.search_text, new.phone_digits FROM companies WHERE id = new.company_id AND new.deleted = 0;
  INSERT INTO clients_grams (rowid, grams)
    SELECT slot << 53 | new.id, (
      SELECT group_concat(slot || 'x' || hex(substr(text, key + 1, 1)) || block || slot || 'x' || hex(substr(text, key + 1, 2)) || block, '')
      FROM json_each('[' || rtrim(replace(hex(zeroblob(length(text))), '00', '0,'), ',') || ']'))
    FROM (SELECT slot, new.search_text || char(31) || new.phone_digits AS text, printf('x%013d ', new.id >> 12) AS block
      FROM companies WHERE id = new.company_id AND new.deleted = 0 LIMIT 1);
END;
--> statement-breakpoint
CREATE TRIGGER clients_name AFTER UPDATE OF company_name_key ON clients WHEN old.company_name_key <> new.company_name_key BEGIN
  DELETE FROM client_names_fts WHERE rowid = (SELECT slot << 53 | old.id FROM companies WHERE id = old.company_id);
  INSERT INTO client_names_fts (rowid, text, spaced)
    SELECT slot << 53 | new.id, new.company_name_key, (
      SELECT char(30) || group_concat(substr(new.company_name_key, key + 1, 1), char(30)) || char(30)
      FROM json_each('[' || rtrim(replace(hex(zeroblob(length(new.company_name_key))), '00', '0,'), ',') || ']'))
    FROM companies WHERE id = new.company_id;
END;
--> statement-breakpoint
CREATE TRIGGER orders_insert AFTER INSERT ON orders BEGIN
  UPDATE companies SET order_count = order_count + 1 - new.deleted, last_order_id = max(last_order_id, new.id),
      last_change = last_change + 1
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
    SELECT slot << 53 | new.id, text, (
      SELECT char(30) || group_concat(substr(text, key + 1, 1), char(30)) || char(30)
      FROM json_each('[' || rtrim(replace(hex(zeroblob(length(text))), '00', '0,'), ',') || ']'))
    FROM (SELECT slot, new.title_key || char(31) || new.number_key AS text FROM companies WHERE id = new.company_id LIMIT 1);
END;
--> statement-breakpoint
CREATE TRIGGER orders_search AFTER UPDATE OF title_key, number_key ON orders
WHEN old.title_key <> new.title_key OR old.number_key <> new.number_key BEGIN
  DELETE FROM orders_fts WHERE rowid = (SELECT slot << 53 | old.id FROM companies WHERE id = old.company_id);
  INSERT INTO orders_fts (rowid, text, spaced)
    SELECT slot << 53 | new.id, text, (
      SELECT char(30) || group_concat(substr(text, key + 1, 1), char(30)) || char(30)
      FROM json_each('[' || rtrim(replace(hex(zeroblob(length(text))), '00', '0,'), ',') || ']'))
    FROM (SELECT slot, new.title_key || char(31) || new.number_key AS text FROM companies WHERE id = new.company_id LIMIT 1);
END;
--> statement-breakpoint
CREATE TRIGGER orders_recount AFTER UPDATE OF deleted, client_id, order_status_id, created_date ON orders
WHEN old.deleted <> new.deleted OR old.client_id <> new.client_id OR old.order_status_id IS NOT new.order_status_id
  OR old.created_date <> new.created_date BEGIN
  UPDATE companies SET order_count = order_count + old.deleted - new.deleted
    WHERE id = new.company_id AND old.deleted <> new.deleted;
  UPDATE order_counts SET count = count - 1 WHERE company_id = old.company_id AND old.deleted = 0
    AND status_id = coalesce(old.order_status_id, 0)
    AND (client_id, created_date) IN (VALUES (0, old.created_date), (0, ''), (old.client_id, ''));
  INSERT INTO order_counts (company_id, client_id, status_id, created_date, count)
    SELECT new.company_id, client, coalesce(new.order_status_id, 0), day, 1
    FROM (SELECT 0 AS client, new.created_date AS day UNION ALL SELECT 0, '' UNION ALL SELECT new.client_id, '')
    WHERE new.deleted = 0
    ON CONFLICT DO UPDATE SET count = count + 1;
END;
--> statement-breakpoint
CREATE TRIGGER invoices_insert AFTER INSERT ON invoices BEGIN
  UPDATE companies SET last_invoice_id = max(last_invoice_id, new.id), last_invoice_number = iif(
      new.number NOT GLOB '*[^0-9]*' AND length(new.number) BETWEEN 1 AND 15,
      max(last_invoice_number, CAST(new.number AS INTEGER)), last_invoice_number)
    WHERE id = new.company_id;
END;
--> statement-breakpoint
CREATE TRIGGER catalog_items_insert AFTER INSERT ON catalog_items BEGIN
  INSERT INTO catalog_items_fts (rowid, text, spaced)
    SELECT slot << 53 | new.id, new.search_text, (
      SELECT char(30) || group_concat(substr(new.search_text, key + 1, 1), char(30)) || char(30)
      FROM json_each('[' || rtrim(replace(hex(zeroblob(length(new.search_text))), '00', '0,'), ',') || ']'))
    FROM companies WHERE id = new.company_id AND new.deleted = 0;
END;
--> statement-breakpoint
CREATE TRIGGER catalog_items_search AFTER UPDATE OF search_text, deleted ON catalog_items
WHEN old.search_text <> new.search_text OR old.deleted <> new.deleted BEGIN
  DELETE FROM catalog_items_fts WHERE rowid = (SELECT slot << 53 | old.id FROM companies WHERE id = old.company_id AND old.deleted = 0);
  INSERT INTO catalog_items_fts (rowid, text, spaced)
    SELECT slot << 53 | new.id, new.search_text, (
      SELECT char(30) || group_concat(substr(new.search_text, key + 1, 1), char(30)) || char(30)
      FROM json_each('[' || rtrim(replace(hex(zeroblob(length(new.search_text))), '00', '0,'), ',') || ']'))
    FROM companies WHERE id = new.company_id AND new.deleted = 0;
END;
--> statement-breakpoint
CREATE TRIGGER invoice_items_insert AFTER INSERT ON invoice_items BEGIN
  INSERT INTO invoice_items_fts (rowid, text, spaced)
    SELECT slot << 53 | new.id, new.search_text, (
      SELECT char(30) || group_concat(substr(new.search_text, key + 1, 1), char(30)) || char(30)
      FROM json_each('[' || rtrim(replace(hex(zeroblob(length(new.search_text))), '00', '0,'), ',') || ']'))
    FROM companies WHERE id = new.company_id AND new.deleted = 0;
END;
--> statement-breakpoint
CREATE TRIGGER invoice_items_search AFTER UPDATE OF search_text, deleted ON invoice_items
WHEN old.search_text <> new.search_text OR old.deleted <> new.deleted BEGIN
  DELETE FROM invoice_items_fts WHERE rowid = (SELECT slot << 53 | old.id FROM companies WHERE id = old.company_id AND old.deleted = 0);
  INSERT INTO invoice_items_fts (rowid, text, spaced)
    SELECT slot << 53 | new.id, new.search_text, (
      SELECT char(30) || group_concat(substr(new.search_text, key + 1, 1), char(30)) || char(30)
      FROM json_each('[' || rtrim(replace(hex(zeroblob(length(new.search_text))), '00', '0,'), ',') || ']'))
    FROM companies WHERE id = new.company_id AND new.deleted = 0;
END;
