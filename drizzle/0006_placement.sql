-- Companies in several databases. Additive only, so that the release before works with it (expand, then contract).
-- `companies.database` and `database_slot` are set in the directory's row of a company that lives in another database.
ALTER TABLE `companies` ADD `database` text;--> statement-breakpoint
ALTER TABLE `companies` ADD `database_slot` integer;--> statement-breakpoint
DROP INDEX `companies_slot_unique`;--> statement-breakpoint
CREATE UNIQUE INDEX `companies_slot_unique` ON `companies` (`slot`) WHERE "companies"."database" IS NULL;--> statement-breakpoint
CREATE UNIQUE INDEX `companies_elsewhere` ON `companies` (`database`,`database_slot`) WHERE "companies"."database" IS NOT NULL;--> statement-breakpoint
CREATE TABLE `moves` (
	`company_id` integer PRIMARY KEY NOT NULL,
	`source` text NOT NULL,
	`destination` text NOT NULL,
	`state` text NOT NULL,
	`started_at` integer NOT NULL,
	`updated_at` integer NOT NULL,
	FOREIGN KEY (`company_id`) REFERENCES `companies`(`id`) ON UPDATE no action ON DELETE no action
);
--> statement-breakpoint
CREATE TABLE `company_guards` (
	`company_id` integer PRIMARY KEY NOT NULL,
	`state` text NOT NULL,
	`destination` text NOT NULL,
	`slot` integer NOT NULL,
	`audit_id` integer DEFAULT 0 NOT NULL,
	`frozen_at` integer,
	CONSTRAINT "company_guards_state" CHECK("company_guards"."state" IN ('copying', 'frozen', 'away', 'open'))
);
--> statement-breakpoint
CREATE TABLE `move_log` (
	`id` integer PRIMARY KEY NOT NULL,
	`company_id` integer NOT NULL,
	`table_name` text NOT NULL,
	`key` text NOT NULL
);
--> statement-breakpoint
CREATE INDEX `email_thread_objects_company` ON `email_thread_objects` (`company_id`,`id`);--> statement-breakpoint
CREATE INDEX `move_log_company` ON `move_log` (`company_id`,`table_name`,`id`);--> statement-breakpoint
-- While a company is copied, its changed rows are logged. While it is frozen, and where it no longer is, every write is
-- refused: one that comes late, from a Worker that does not know of the move yet, is neither lost nor done twice. All of
-- them look into company_guards alone, which is nearly always empty. `open` is a state of the move itself.
CREATE TRIGGER integrations_moving_insert BEFORE INSERT ON integrations
WHEN EXISTS (SELECT 1 FROM company_guards WHERE company_id = new.company_id AND state <> 'open') BEGIN
  SELECT RAISE(ABORT, 'company is moving') FROM company_guards WHERE company_id = new.company_id AND state <> 'copying';
  INSERT INTO move_log (company_id, table_name, key) VALUES (new.company_id, 'integrations', json_array(new.kind));
END;
--> statement-breakpoint
CREATE TRIGGER integrations_moving_update BEFORE UPDATE ON integrations
WHEN EXISTS (SELECT 1 FROM company_guards WHERE company_id = new.company_id AND state <> 'open') BEGIN
  SELECT RAISE(ABORT, 'company is moving') FROM company_guards WHERE company_id = new.company_id AND state <> 'copying';
  INSERT INTO move_log (company_id, table_name, key) VALUES (new.company_id, 'integrations', json_array(new.kind));
END;
--> statement-breakpoint
CREATE TRIGGER integrations_moving_delete BEFORE DELETE ON integrations
WHEN EXISTS (SELECT 1 FROM company_guards WHERE company_id = old.company_id AND state <> 'open') BEGIN
  SELECT RAISE(ABORT, 'company is moving') FROM company_guards WHERE company_id = old.company_id AND state <> 'copying';
  INSERT INTO move_log (company_id, table_name, key) VALUES (old.company_id, 'integrations', json_array(old.kind));
END;
--> statement-breakpoint
CREATE TRIGGER order_statuses_moving_insert BEFORE INSERT ON order_statuses
WHEN EXISTS (SELECT 1 FROM company_guards WHERE company_id = new.company_id AND state <> 'open') BEGIN
  SELECT RAISE(ABORT, 'company is moving') FROM company_guards WHERE company_id = new.company_id AND state <> 'copying';
  INSERT INTO move_log (company_id, table_name, key) VALUES (new.company_id, 'order_statuses', json_array(new.id));
END;
--> statement-breakpoint
CREATE TRIGGER order_statuses_moving_update BEFORE UPDATE ON order_statuses
WHEN EXISTS (SELECT 1 FROM company_guards WHERE company_id = new.company_id AND state <> 'open') BEGIN
  SELECT RAISE(ABORT, 'company is moving') FROM company_guards WHERE company_id = new.company_id AND state <> 'copying';
  INSERT INTO move_log (company_id, table_name, key) VALUES (new.company_id, 'order_statuses', json_array(new.id));
END;
--> statement-breakpoint
CREATE TRIGGER order_statuses_moving_delete BEFORE DELETE ON order_statuses
WHEN EXISTS (SELECT 1 FROM company_guards WHERE company_id = old.company_id AND state <> 'open') BEGIN
  SELECT RAISE(ABORT, 'company is moving') FROM company_guards WHERE company_id = old.company_id AND state <> 'copying';
  INSERT INTO move_log (company_id, table_name, key) VALUES (old.company_id, 'order_statuses', json_array(old.id));
END;
--> statement-breakpoint
CREATE TRIGGER taxes_moving_insert BEFORE INSERT ON taxes
WHEN EXISTS (SELECT 1 FROM company_guards WHERE company_id = new.company_id AND state <> 'open') BEGIN
  SELECT RAISE(ABORT, 'company is moving') FROM company_guards WHERE company_id = new.company_id AND state <> 'copying';
  INSERT INTO move_log (company_id, table_name, key) VALUES (new.company_id, 'taxes', json_array(new.id));
END;
--> statement-breakpoint
CREATE TRIGGER taxes_moving_update BEFORE UPDATE ON taxes
WHEN EXISTS (SELECT 1 FROM company_guards WHERE company_id = new.company_id AND state <> 'open') BEGIN
  SELECT RAISE(ABORT, 'company is moving') FROM company_guards WHERE company_id = new.company_id AND state <> 'copying';
  INSERT INTO move_log (company_id, table_name, key) VALUES (new.company_id, 'taxes', json_array(new.id));
END;
--> statement-breakpoint
CREATE TRIGGER taxes_moving_delete BEFORE DELETE ON taxes
WHEN EXISTS (SELECT 1 FROM company_guards WHERE company_id = old.company_id AND state <> 'open') BEGIN
  SELECT RAISE(ABORT, 'company is moving') FROM company_guards WHERE company_id = old.company_id AND state <> 'copying';
  INSERT INTO move_log (company_id, table_name, key) VALUES (old.company_id, 'taxes', json_array(old.id));
END;
--> statement-breakpoint
CREATE TRIGGER clients_moving_insert BEFORE INSERT ON clients
WHEN EXISTS (SELECT 1 FROM company_guards WHERE company_id = new.company_id AND state <> 'open') BEGIN
  SELECT RAISE(ABORT, 'company is moving') FROM company_guards WHERE company_id = new.company_id AND state <> 'copying';
  INSERT INTO move_log (company_id, table_name, key) VALUES (new.company_id, 'clients', json_array(new.id));
END;
--> statement-breakpoint
CREATE TRIGGER clients_moving_update BEFORE UPDATE ON clients
WHEN EXISTS (SELECT 1 FROM company_guards WHERE company_id = new.company_id AND state <> 'open') BEGIN
  SELECT RAISE(ABORT, 'company is moving') FROM company_guards WHERE company_id = new.company_id AND state <> 'copying';
  INSERT INTO move_log (company_id, table_name, key) VALUES (new.company_id, 'clients', json_array(new.id));
END;
--> statement-breakpoint
CREATE TRIGGER clients_moving_delete BEFORE DELETE ON clients
WHEN EXISTS (SELECT 1 FROM company_guards WHERE company_id = old.company_id AND state <> 'open') BEGIN
  SELECT RAISE(ABORT, 'company is moving') FROM company_guards WHERE company_id = old.company_id AND state <> 'copying';
  INSERT INTO move_log (company_id, table_name, key) VALUES (old.company_id, 'clients', json_array(old.id));
END;
--> statement-breakpoint
CREATE TRIGGER orders_moving_insert BEFORE INSERT ON orders
WHEN EXISTS (SELECT 1 FROM company_guards WHERE company_id = new.company_id AND state <> 'open') BEGIN
  SELECT RAISE(ABORT, 'company is moving') FROM company_guards WHERE company_id = new.company_id AND state <> 'copying';
  INSERT INTO move_log (company_id, table_name, key) VALUES (new.company_id, 'orders', json_array(new.id));
END;
--> statement-breakpoint
CREATE TRIGGER orders_moving_update BEFORE UPDATE ON orders
WHEN EXISTS (SELECT 1 FROM company_guards WHERE company_id = new.company_id AND state <> 'open') BEGIN
  SELECT RAISE(ABORT, 'company is moving') FROM company_guards WHERE company_id = new.company_id AND state <> 'copying';
  INSERT INTO move_log (company_id, table_name, key) VALUES (new.company_id, 'orders', json_array(new.id));
END;
--> statement-breakpoint
CREATE TRIGGER orders_moving_delete BEFORE DELETE ON orders
WHEN EXISTS (SELECT 1 FROM company_guards WHERE company_id = old.company_id AND state <> 'open') BEGIN
  SELECT RAISE(ABORT, 'company is moving') FROM company_guards WHERE company_id = old.company_id AND state <> 'copying';
  INSERT INTO move_log (company_id, table_name, key) VALUES (old.company_id, 'orders', json_array(old.id));
END;
--> statement-breakpoint
CREATE TRIGGER invoices_moving_insert BEFORE INSERT ON invoices
WHEN EXISTS (SELECT 1 FROM company_guards WHERE company_id = new.company_id AND state <> 'open') BEGIN
  SELECT RAISE(ABORT, 'company is moving') FROM company_guards WHERE company_id = new.company_id AND state <> 'copying';
  INSERT INTO move_log (company_id, table_name, key) VALUES (new.company_id, 'invoices', json_array(new.id));
END;
--> statement-breakpoint
CREATE TRIGGER invoices_moving_update BEFORE UPDATE ON invoices
WHEN EXISTS (SELECT 1 FROM company_guards WHERE company_id = new.company_id AND state <> 'open') BEGIN
  SELECT RAISE(ABORT, 'company is moving') FROM company_guards WHERE company_id = new.company_id AND state <> 'copying';
  INSERT INTO move_log (company_id, table_name, key) VALUES (new.company_id, 'invoices', json_array(new.id));
END;
--> statement-breakpoint
CREATE TRIGGER invoices_moving_delete BEFORE DELETE ON invoices
WHEN EXISTS (SELECT 1 FROM company_guards WHERE company_id = old.company_id AND state <> 'open') BEGIN
  SELECT RAISE(ABORT, 'company is moving') FROM company_guards WHERE company_id = old.company_id AND state <> 'copying';
  INSERT INTO move_log (company_id, table_name, key) VALUES (old.company_id, 'invoices', json_array(old.id));
END;
--> statement-breakpoint
CREATE TRIGGER invoice_items_moving_insert BEFORE INSERT ON invoice_items
WHEN EXISTS (SELECT 1 FROM company_guards WHERE company_id = new.company_id AND state <> 'open') BEGIN
  SELECT RAISE(ABORT, 'company is moving') FROM company_guards WHERE company_id = new.company_id AND state <> 'copying';
  INSERT INTO move_log (company_id, table_name, key) VALUES (new.company_id, 'invoice_items', json_array(new.id));
END;
--> statement-breakpoint
CREATE TRIGGER invoice_items_moving_update BEFORE UPDATE ON invoice_items
WHEN EXISTS (SELECT 1 FROM company_guards WHERE company_id = new.company_id AND state <> 'open') BEGIN
  SELECT RAISE(ABORT, 'company is moving') FROM company_guards WHERE company_id = new.company_id AND state <> 'copying';
  INSERT INTO move_log (company_id, table_name, key) VALUES (new.company_id, 'invoice_items', json_array(new.id));
END;
--> statement-breakpoint
CREATE TRIGGER invoice_items_moving_delete BEFORE DELETE ON invoice_items
WHEN EXISTS (SELECT 1 FROM company_guards WHERE company_id = old.company_id AND state <> 'open') BEGIN
  SELECT RAISE(ABORT, 'company is moving') FROM company_guards WHERE company_id = old.company_id AND state <> 'copying';
  INSERT INTO move_log (company_id, table_name, key) VALUES (old.company_id, 'invoice_items', json_array(old.id));
END;
--> statement-breakpoint
CREATE TRIGGER payments_moving_insert BEFORE INSERT ON payments
WHEN EXISTS (SELECT 1 FROM company_guards WHERE company_id = new.company_id AND state <> 'open') BEGIN
  SELECT RAISE(ABORT, 'company is moving') FROM company_guards WHERE company_id = new.company_id AND state <> 'copying';
  INSERT INTO move_log (company_id, table_name, key) VALUES (new.company_id, 'payments', json_array(new.invoice_id, new.id));
END;
--> statement-breakpoint
CREATE TRIGGER payments_moving_update BEFORE UPDATE ON payments
WHEN EXISTS (SELECT 1 FROM company_guards WHERE company_id = new.company_id AND state <> 'open') BEGIN
  SELECT RAISE(ABORT, 'company is moving') FROM company_guards WHERE company_id = new.company_id AND state <> 'copying';
  INSERT INTO move_log (company_id, table_name, key) VALUES (new.company_id, 'payments', json_array(new.invoice_id, new.id));
END;
--> statement-breakpoint
CREATE TRIGGER payments_moving_delete BEFORE DELETE ON payments
WHEN EXISTS (SELECT 1 FROM company_guards WHERE company_id = old.company_id AND state <> 'open') BEGIN
  SELECT RAISE(ABORT, 'company is moving') FROM company_guards WHERE company_id = old.company_id AND state <> 'copying';
  INSERT INTO move_log (company_id, table_name, key) VALUES (old.company_id, 'payments', json_array(old.invoice_id, old.id));
END;
--> statement-breakpoint
CREATE TRIGGER artworks_moving_insert BEFORE INSERT ON artworks
WHEN EXISTS (SELECT 1 FROM company_guards WHERE company_id = new.company_id AND state <> 'open') BEGIN
  SELECT RAISE(ABORT, 'company is moving') FROM company_guards WHERE company_id = new.company_id AND state <> 'copying';
  INSERT INTO move_log (company_id, table_name, key) VALUES (new.company_id, 'artworks', json_array(new.id));
END;
--> statement-breakpoint
CREATE TRIGGER artworks_moving_update BEFORE UPDATE ON artworks
WHEN EXISTS (SELECT 1 FROM company_guards WHERE company_id = new.company_id AND state <> 'open') BEGIN
  SELECT RAISE(ABORT, 'company is moving') FROM company_guards WHERE company_id = new.company_id AND state <> 'copying';
  INSERT INTO move_log (company_id, table_name, key) VALUES (new.company_id, 'artworks', json_array(new.id));
END;
--> statement-breakpoint
CREATE TRIGGER artworks_moving_delete BEFORE DELETE ON artworks
WHEN EXISTS (SELECT 1 FROM company_guards WHERE company_id = old.company_id AND state <> 'open') BEGIN
  SELECT RAISE(ABORT, 'company is moving') FROM company_guards WHERE company_id = old.company_id AND state <> 'copying';
  INSERT INTO move_log (company_id, table_name, key) VALUES (old.company_id, 'artworks', json_array(old.id));
END;
--> statement-breakpoint
CREATE TRIGGER accounting_connections_moving_insert BEFORE INSERT ON accounting_connections
WHEN EXISTS (SELECT 1 FROM company_guards WHERE company_id = new.company_id AND state <> 'open') BEGIN
  SELECT RAISE(ABORT, 'company is moving') FROM company_guards WHERE company_id = new.company_id AND state <> 'copying';
  INSERT INTO move_log (company_id, table_name, key) VALUES (new.company_id, 'accounting_connections', json_array());
END;
--> statement-breakpoint
CREATE TRIGGER accounting_connections_moving_update BEFORE UPDATE ON accounting_connections
WHEN EXISTS (SELECT 1 FROM company_guards WHERE company_id = new.company_id AND state <> 'open') BEGIN
  SELECT RAISE(ABORT, 'company is moving') FROM company_guards WHERE company_id = new.company_id AND state <> 'copying';
  INSERT INTO move_log (company_id, table_name, key) VALUES (new.company_id, 'accounting_connections', json_array());
END;
--> statement-breakpoint
CREATE TRIGGER accounting_connections_moving_delete BEFORE DELETE ON accounting_connections
WHEN EXISTS (SELECT 1 FROM company_guards WHERE company_id = old.company_id AND state <> 'open') BEGIN
  SELECT RAISE(ABORT, 'company is moving') FROM company_guards WHERE company_id = old.company_id AND state <> 'copying';
  INSERT INTO move_log (company_id, table_name, key) VALUES (old.company_id, 'accounting_connections', json_array());
END;
--> statement-breakpoint
CREATE TRIGGER accounting_links_moving_insert BEFORE INSERT ON accounting_links
WHEN EXISTS (SELECT 1 FROM company_guards WHERE company_id = new.company_id AND state <> 'open') BEGIN
  SELECT RAISE(ABORT, 'company is moving') FROM company_guards WHERE company_id = new.company_id AND state <> 'copying';
  INSERT INTO move_log (company_id, table_name, key) VALUES (new.company_id, 'accounting_links', json_array(new.order_id));
END;
--> statement-breakpoint
CREATE TRIGGER accounting_links_moving_update BEFORE UPDATE ON accounting_links
WHEN EXISTS (SELECT 1 FROM company_guards WHERE company_id = new.company_id AND state <> 'open') BEGIN
  SELECT RAISE(ABORT, 'company is moving') FROM company_guards WHERE company_id = new.company_id AND state <> 'copying';
  INSERT INTO move_log (company_id, table_name, key) VALUES (new.company_id, 'accounting_links', json_array(new.order_id));
END;
--> statement-breakpoint
CREATE TRIGGER accounting_links_moving_delete BEFORE DELETE ON accounting_links
WHEN EXISTS (SELECT 1 FROM company_guards WHERE company_id = old.company_id AND state <> 'open') BEGIN
  SELECT RAISE(ABORT, 'company is moving') FROM company_guards WHERE company_id = old.company_id AND state <> 'copying';
  INSERT INTO move_log (company_id, table_name, key) VALUES (old.company_id, 'accounting_links', json_array(old.order_id));
END;
--> statement-breakpoint
CREATE TRIGGER email_threads_moving_insert BEFORE INSERT ON email_threads
WHEN EXISTS (SELECT 1 FROM company_guards WHERE company_id = new.company_id AND state <> 'open') BEGIN
  SELECT RAISE(ABORT, 'company is moving') FROM company_guards WHERE company_id = new.company_id AND state <> 'copying';
  INSERT INTO move_log (company_id, table_name, key) VALUES (new.company_id, 'email_threads', json_array(new.id));
END;
--> statement-breakpoint
CREATE TRIGGER email_threads_moving_update BEFORE UPDATE ON email_threads
WHEN EXISTS (SELECT 1 FROM company_guards WHERE company_id = new.company_id AND state <> 'open') BEGIN
  SELECT RAISE(ABORT, 'company is moving') FROM company_guards WHERE company_id = new.company_id AND state <> 'copying';
  INSERT INTO move_log (company_id, table_name, key) VALUES (new.company_id, 'email_threads', json_array(new.id));
END;
--> statement-breakpoint
CREATE TRIGGER email_threads_moving_delete BEFORE DELETE ON email_threads
WHEN EXISTS (SELECT 1 FROM company_guards WHERE company_id = old.company_id AND state <> 'open') BEGIN
  SELECT RAISE(ABORT, 'company is moving') FROM company_guards WHERE company_id = old.company_id AND state <> 'copying';
  INSERT INTO move_log (company_id, table_name, key) VALUES (old.company_id, 'email_threads', json_array(old.id));
END;
--> statement-breakpoint
CREATE TRIGGER email_thread_segments_moving_insert BEFORE INSERT ON email_thread_segments
WHEN EXISTS (SELECT 1 FROM company_guards) AND EXISTS (SELECT 1 FROM company_guards WHERE company_id = (SELECT company_id FROM email_threads WHERE id = new.thread_id) AND state <> 'open') BEGIN
  SELECT RAISE(ABORT, 'company is moving') FROM company_guards WHERE company_id = (SELECT company_id FROM email_threads WHERE id = new.thread_id) AND state <> 'copying';
  INSERT INTO move_log (company_id, table_name, key) VALUES ((SELECT company_id FROM email_threads WHERE id = new.thread_id), 'email_thread_segments', json_array(new.thread_id, new.field, new.position));
END;
--> statement-breakpoint
CREATE TRIGGER email_thread_segments_moving_update BEFORE UPDATE ON email_thread_segments
WHEN EXISTS (SELECT 1 FROM company_guards) AND EXISTS (SELECT 1 FROM company_guards WHERE company_id = (SELECT company_id FROM email_threads WHERE id = new.thread_id) AND state <> 'open') BEGIN
  SELECT RAISE(ABORT, 'company is moving') FROM company_guards WHERE company_id = (SELECT company_id FROM email_threads WHERE id = new.thread_id) AND state <> 'copying';
  INSERT INTO move_log (company_id, table_name, key) VALUES ((SELECT company_id FROM email_threads WHERE id = new.thread_id), 'email_thread_segments', json_array(new.thread_id, new.field, new.position));
END;
--> statement-breakpoint
CREATE TRIGGER email_thread_segments_moving_delete BEFORE DELETE ON email_thread_segments
WHEN EXISTS (SELECT 1 FROM company_guards) AND EXISTS (SELECT 1 FROM company_guards WHERE company_id = (SELECT company_id FROM email_threads WHERE id = old.thread_id) AND state <> 'open') BEGIN
  SELECT RAISE(ABORT, 'company is moving') FROM company_guards WHERE company_id = (SELECT company_id FROM email_threads WHERE id = old.thread_id) AND state <> 'copying';
  INSERT INTO move_log (company_id, table_name, key) VALUES ((SELECT company_id FROM email_threads WHERE id = old.thread_id), 'email_thread_segments', json_array(old.thread_id, old.field, old.position));
END;
--> statement-breakpoint
CREATE TRIGGER email_thread_objects_moving_insert BEFORE INSERT ON email_thread_objects
WHEN EXISTS (SELECT 1 FROM company_guards WHERE company_id = new.company_id AND state <> 'open') BEGIN
  SELECT RAISE(ABORT, 'company is moving') FROM company_guards WHERE company_id = new.company_id AND state <> 'copying';
  INSERT INTO move_log (company_id, table_name, key) VALUES (new.company_id, 'email_thread_objects', json_array(new.id));
END;
--> statement-breakpoint
CREATE TRIGGER email_thread_objects_moving_update BEFORE UPDATE ON email_thread_objects
WHEN EXISTS (SELECT 1 FROM company_guards WHERE company_id = new.company_id AND state <> 'open') BEGIN
  SELECT RAISE(ABORT, 'company is moving') FROM company_guards WHERE company_id = new.company_id AND state <> 'copying';
  INSERT INTO move_log (company_id, table_name, key) VALUES (new.company_id, 'email_thread_objects', json_array(new.id));
END;
--> statement-breakpoint
CREATE TRIGGER email_thread_objects_moving_delete BEFORE DELETE ON email_thread_objects
WHEN EXISTS (SELECT 1 FROM company_guards WHERE company_id = old.company_id AND state <> 'open') BEGIN
  SELECT RAISE(ABORT, 'company is moving') FROM company_guards WHERE company_id = old.company_id AND state <> 'copying';
  INSERT INTO move_log (company_id, table_name, key) VALUES (old.company_id, 'email_thread_objects', json_array(old.id));
END;
--> statement-breakpoint
CREATE TRIGGER thread_contexts_moving_insert BEFORE INSERT ON thread_contexts
WHEN EXISTS (SELECT 1 FROM company_guards WHERE company_id = new.company_id AND state <> 'open') BEGIN
  SELECT RAISE(ABORT, 'company is moving') FROM company_guards WHERE company_id = new.company_id AND state <> 'copying';
  INSERT INTO move_log (company_id, table_name, key) VALUES (new.company_id, 'thread_contexts', json_array(new.thread_id));
END;
--> statement-breakpoint
CREATE TRIGGER thread_contexts_moving_update BEFORE UPDATE ON thread_contexts
WHEN EXISTS (SELECT 1 FROM company_guards WHERE company_id = new.company_id AND state <> 'open') BEGIN
  SELECT RAISE(ABORT, 'company is moving') FROM company_guards WHERE company_id = new.company_id AND state <> 'copying';
  INSERT INTO move_log (company_id, table_name, key) VALUES (new.company_id, 'thread_contexts', json_array(new.thread_id));
END;
--> statement-breakpoint
CREATE TRIGGER thread_contexts_moving_delete BEFORE DELETE ON thread_contexts
WHEN EXISTS (SELECT 1 FROM company_guards WHERE company_id = old.company_id AND state <> 'open') BEGIN
  SELECT RAISE(ABORT, 'company is moving') FROM company_guards WHERE company_id = old.company_id AND state <> 'copying';
  INSERT INTO move_log (company_id, table_name, key) VALUES (old.company_id, 'thread_contexts', json_array(old.thread_id));
END;
--> statement-breakpoint
CREATE TRIGGER catalog_items_moving_insert BEFORE INSERT ON catalog_items
WHEN EXISTS (SELECT 1 FROM company_guards WHERE company_id = new.company_id AND state <> 'open') BEGIN
  SELECT RAISE(ABORT, 'company is moving') FROM company_guards WHERE company_id = new.company_id AND state <> 'copying';
  INSERT INTO move_log (company_id, table_name, key) VALUES (new.company_id, 'catalog_items', json_array(new.id));
END;
--> statement-breakpoint
CREATE TRIGGER catalog_items_moving_update BEFORE UPDATE ON catalog_items
WHEN EXISTS (SELECT 1 FROM company_guards WHERE company_id = new.company_id AND state <> 'open') BEGIN
  SELECT RAISE(ABORT, 'company is moving') FROM company_guards WHERE company_id = new.company_id AND state <> 'copying';
  INSERT INTO move_log (company_id, table_name, key) VALUES (new.company_id, 'catalog_items', json_array(new.id));
END;
--> statement-breakpoint
CREATE TRIGGER catalog_items_moving_delete BEFORE DELETE ON catalog_items
WHEN EXISTS (SELECT 1 FROM company_guards WHERE company_id = old.company_id AND state <> 'open') BEGIN
  SELECT RAISE(ABORT, 'company is moving') FROM company_guards WHERE company_id = old.company_id AND state <> 'copying';
  INSERT INTO move_log (company_id, table_name, key) VALUES (old.company_id, 'catalog_items', json_array(old.id));
END;
--> statement-breakpoint
CREATE TRIGGER webhook_endpoints_moving_insert BEFORE INSERT ON webhook_endpoints
WHEN EXISTS (SELECT 1 FROM company_guards WHERE company_id = new.company_id AND state <> 'open') BEGIN
  SELECT RAISE(ABORT, 'company is moving') FROM company_guards WHERE company_id = new.company_id AND state <> 'copying';
  INSERT INTO move_log (company_id, table_name, key) VALUES (new.company_id, 'webhook_endpoints', json_array(new.id));
END;
--> statement-breakpoint
CREATE TRIGGER webhook_endpoints_moving_update BEFORE UPDATE ON webhook_endpoints
WHEN EXISTS (SELECT 1 FROM company_guards WHERE company_id = new.company_id AND state <> 'open') BEGIN
  SELECT RAISE(ABORT, 'company is moving') FROM company_guards WHERE company_id = new.company_id AND state <> 'copying';
  INSERT INTO move_log (company_id, table_name, key) VALUES (new.company_id, 'webhook_endpoints', json_array(new.id));
END;
--> statement-breakpoint
CREATE TRIGGER webhook_endpoints_moving_delete BEFORE DELETE ON webhook_endpoints
WHEN EXISTS (SELECT 1 FROM company_guards WHERE company_id = old.company_id AND state <> 'open') BEGIN
  SELECT RAISE(ABORT, 'company is moving') FROM company_guards WHERE company_id = old.company_id AND state <> 'copying';
  INSERT INTO move_log (company_id, table_name, key) VALUES (old.company_id, 'webhook_endpoints', json_array(old.id));
END;
--> statement-breakpoint
CREATE TRIGGER webhook_deliveries_moving_insert BEFORE INSERT ON webhook_deliveries
WHEN EXISTS (SELECT 1 FROM company_guards WHERE company_id = new.company_id AND state <> 'open') BEGIN
  SELECT RAISE(ABORT, 'company is moving') FROM company_guards WHERE company_id = new.company_id AND state <> 'copying';
  INSERT INTO move_log (company_id, table_name, key) VALUES (new.company_id, 'webhook_deliveries', json_array(new.endpoint_id, new.type, new.entity_id, new.sequence));
END;
--> statement-breakpoint
CREATE TRIGGER webhook_deliveries_moving_update BEFORE UPDATE ON webhook_deliveries
WHEN EXISTS (SELECT 1 FROM company_guards WHERE company_id = new.company_id AND state <> 'open') BEGIN
  SELECT RAISE(ABORT, 'company is moving') FROM company_guards WHERE company_id = new.company_id AND state <> 'copying';
  INSERT INTO move_log (company_id, table_name, key) VALUES (new.company_id, 'webhook_deliveries', json_array(new.endpoint_id, new.type, new.entity_id, new.sequence));
END;
--> statement-breakpoint
CREATE TRIGGER webhook_deliveries_moving_delete BEFORE DELETE ON webhook_deliveries
WHEN EXISTS (SELECT 1 FROM company_guards WHERE company_id = old.company_id AND state <> 'open') BEGIN
  SELECT RAISE(ABORT, 'company is moving') FROM company_guards WHERE company_id = old.company_id AND state <> 'copying';
  INSERT INTO move_log (company_id, table_name, key) VALUES (old.company_id, 'webhook_deliveries', json_array(old.endpoint_id, old.type, old.entity_id, old.sequence));
END;
--> statement-breakpoint
CREATE TRIGGER idempotency_keys_moving_insert BEFORE INSERT ON idempotency_keys
WHEN EXISTS (SELECT 1 FROM company_guards WHERE company_id = new.company_id AND state <> 'open') BEGIN
  SELECT RAISE(ABORT, 'company is moving') FROM company_guards WHERE company_id = new.company_id AND state <> 'copying';
  INSERT INTO move_log (company_id, table_name, key) VALUES (new.company_id, 'idempotency_keys', json_array(new.token_id, new.key, new.position));
END;
--> statement-breakpoint
CREATE TRIGGER idempotency_keys_moving_update BEFORE UPDATE ON idempotency_keys
WHEN EXISTS (SELECT 1 FROM company_guards WHERE company_id = new.company_id AND state <> 'open') BEGIN
  SELECT RAISE(ABORT, 'company is moving') FROM company_guards WHERE company_id = new.company_id AND state <> 'copying';
  INSERT INTO move_log (company_id, table_name, key) VALUES (new.company_id, 'idempotency_keys', json_array(new.token_id, new.key, new.position));
END;
--> statement-breakpoint
CREATE TRIGGER idempotency_keys_moving_delete BEFORE DELETE ON idempotency_keys
WHEN EXISTS (SELECT 1 FROM company_guards WHERE company_id = old.company_id AND state IN ('copying', 'frozen')) BEGIN
  INSERT INTO move_log (company_id, table_name, key) VALUES (old.company_id, 'idempotency_keys', json_array(old.token_id, old.key, old.position));
END;
--> statement-breakpoint
CREATE TRIGGER imports_moving_insert BEFORE INSERT ON imports
WHEN EXISTS (SELECT 1 FROM company_guards WHERE company_id = new.company_id AND state <> 'open') BEGIN
  SELECT RAISE(ABORT, 'company is moving') FROM company_guards WHERE company_id = new.company_id AND state <> 'copying';
  INSERT INTO move_log (company_id, table_name, key) VALUES (new.company_id, 'imports', json_array(new.hash));
END;
--> statement-breakpoint
CREATE TRIGGER imports_moving_update BEFORE UPDATE ON imports
WHEN EXISTS (SELECT 1 FROM company_guards WHERE company_id = new.company_id AND state <> 'open') BEGIN
  SELECT RAISE(ABORT, 'company is moving') FROM company_guards WHERE company_id = new.company_id AND state <> 'copying';
  INSERT INTO move_log (company_id, table_name, key) VALUES (new.company_id, 'imports', json_array(new.hash));
END;
--> statement-breakpoint
CREATE TRIGGER imports_moving_delete BEFORE DELETE ON imports
WHEN EXISTS (SELECT 1 FROM company_guards WHERE company_id = old.company_id AND state <> 'open') BEGIN
  SELECT RAISE(ABORT, 'company is moving') FROM company_guards WHERE company_id = old.company_id AND state <> 'copying';
  INSERT INTO move_log (company_id, table_name, key) VALUES (old.company_id, 'imports', json_array(old.hash));
END;
--> statement-breakpoint
CREATE TRIGGER accounting_outbox_moving_insert BEFORE INSERT ON accounting_outbox
WHEN EXISTS (SELECT 1 FROM company_guards WHERE company_id = new.company_id AND state IN ('frozen', 'away')) BEGIN
  SELECT RAISE(ABORT, 'company is moving');
END;
--> statement-breakpoint
CREATE TRIGGER accounting_outbox_moving_update BEFORE UPDATE ON accounting_outbox
WHEN EXISTS (SELECT 1 FROM company_guards WHERE company_id = new.company_id AND state IN ('frozen', 'away')) BEGIN
  SELECT RAISE(ABORT, 'company is moving');
END;
--> statement-breakpoint
CREATE TRIGGER audit_log_moving_insert BEFORE INSERT ON audit_log
WHEN EXISTS (SELECT 1 FROM company_guards WHERE company_id = new.company_id AND state IN ('frozen', 'away')) BEGIN
  SELECT RAISE(ABORT, 'company is moving');
END;
--> statement-breakpoint
CREATE TRIGGER audit_log_moving_update BEFORE UPDATE ON audit_log
WHEN EXISTS (SELECT 1 FROM company_guards WHERE company_id = new.company_id AND state IN ('frozen', 'away')) BEGIN
  SELECT RAISE(ABORT, 'company is moving');
END;
--> statement-breakpoint
CREATE TRIGGER email_thread_uploads_moving_insert BEFORE INSERT ON email_thread_uploads
WHEN EXISTS (SELECT 1 FROM company_guards WHERE company_id = new.company_id AND state IN ('frozen', 'away')) BEGIN
  SELECT RAISE(ABORT, 'company is moving');
END;
--> statement-breakpoint
CREATE TRIGGER email_thread_uploads_moving_update BEFORE UPDATE ON email_thread_uploads
WHEN EXISTS (SELECT 1 FROM company_guards WHERE company_id = new.company_id AND state IN ('frozen', 'away')) BEGIN
  SELECT RAISE(ABORT, 'company is moving');
END;
--> statement-breakpoint
CREATE TRIGGER companies_moving_update BEFORE UPDATE OF name, suspended, accounting_sync_enabled, deliveries_paused, mail_quota_bytes,
  last_client_id, last_order_id, last_invoice_id, last_invoice_number, last_payment_id, last_change ON companies
WHEN EXISTS (SELECT 1 FROM company_guards WHERE company_id = new.id AND (state = 'frozen' OR state = 'away'
  AND (new.accounting_sync_enabled <> old.accounting_sync_enabled OR new.deliveries_paused <> old.deliveries_paused
    OR new.mail_quota_bytes <> old.mail_quota_bytes))) BEGIN
  SELECT RAISE(ABORT, 'company is moving');
END;
--> statement-breakpoint
PRAGMA optimize;
