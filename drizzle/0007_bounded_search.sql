-- reviewed: cached counts of searches may be those of another company. Nothing but counting again is lost.
DELETE FROM client_search_counts;
--> statement-breakpoint
-- reviewed: both triggers are made again. They index the first 1,400 characters of a line: the title and the first 200
-- characters of the description, folded. The application stores no more; the last release, its backups and seeds may.
-- Lines that are indexed already stay as they are, until they change: the index deletes by rowid, and rows of old text need
-- no batch of minutes here.
DROP TRIGGER invoice_items_insert;
--> statement-breakpoint
CREATE TRIGGER invoice_items_insert AFTER INSERT ON invoice_items BEGIN
  INSERT INTO invoice_items_fts (rowid, text, spaced)
    SELECT (slot << 53) | new.id, text, (
      SELECT char(30) || group_concat(substr(text, key + 1, 1), char(30)) || char(30)
      FROM json_each('[' || rtrim(replace(hex(zeroblob(length(text))), '00', '0,'), ',') || ']'))
    FROM (SELECT slot, substr(new.search_text, 1, 1400) AS text FROM companies WHERE id = new.company_id AND new.deleted = 0 LIMIT 1);
END;
--> statement-breakpoint
DROP TRIGGER invoice_items_search;
--> statement-breakpoint
CREATE TRIGGER invoice_items_search AFTER UPDATE OF search_text, deleted ON invoice_items
WHEN old.search_text <> new.search_text OR old.deleted <> new.deleted BEGIN
  DELETE FROM invoice_items_fts WHERE rowid = (SELECT (slot << 53) | old.id FROM companies WHERE id = old.company_id AND old.deleted = 0);
  INSERT INTO invoice_items_fts (rowid, text, spaced)
    SELECT (slot << 53) | new.id, text, (
      SELECT char(30) || group_concat(substr(text, key + 1, 1), char(30)) || char(30)
      FROM json_each('[' || rtrim(replace(hex(zeroblob(length(text))), '00', '0,'), ',') || ']'))
    FROM (SELECT slot, substr(new.search_text, 1, 1400) AS text FROM companies WHERE id = new.company_id AND new.deleted = 0 LIMIT 1);
END;
--> statement-breakpoint
PRAGMA optimize;
