-- Reviewed by hand: WITHOUT ROWID where rows are small, so that a company's rows lie together under their key.
CREATE TABLE `accounting_connections` (
	`company_id` integer PRIMARY KEY NOT NULL,
	`remote_account` text NOT NULL,
	`tokens` text,
	`paused_until` integer DEFAULT 0 NOT NULL,
	`stopped_for` integer,
	`reason` text,
	FOREIGN KEY (`company_id`) REFERENCES `companies`(`id`) ON UPDATE no action ON DELETE no action
);
--> statement-breakpoint
CREATE TABLE `accounting_links` (
	`company_id` integer NOT NULL,
	`order_id` integer NOT NULL,
	`external_id` text,
	`sync_token` text,
	`customer_id` text,
	`synced_at` integer,
	`stored_bytes` integer GENERATED ALWAYS AS (20 + (coalesce(octet_length(external_id), 0) + coalesce(octet_length(sync_token), 0) + coalesce(octet_length(customer_id), 0)) * 9 / 8) VIRTUAL,
	PRIMARY KEY(`company_id`, `order_id`),
	FOREIGN KEY (`company_id`) REFERENCES `companies`(`id`) ON UPDATE no action ON DELETE no action,
	FOREIGN KEY (`company_id`,`order_id`) REFERENCES `orders`(`company_id`,`id`) ON UPDATE no action ON DELETE no action
) WITHOUT ROWID;
--> statement-breakpoint
CREATE TABLE `accounting_outbox` (
	`id` integer PRIMARY KEY NOT NULL,
	`company_id` integer NOT NULL,
	`order_id` integer NOT NULL,
	`operation` text NOT NULL,
	`state` text DEFAULT 'pending' NOT NULL,
	`attempts` integer DEFAULT 0 NOT NULL,
	`stale_attempts` integer DEFAULT 0 NOT NULL,
	`next_attempt_at` integer NOT NULL,
	`request_id` text,
	`request_body` text,
	`last_error` text,
	`created_at` integer NOT NULL,
	`updated_at` integer NOT NULL,
	`source_id` integer,
	`stored_bytes` integer GENERATED ALWAYS AS (iif(state = 'done', 0, 90 + (coalesce(octet_length(operation), 0) + coalesce(octet_length(state), 0) + coalesce(octet_length(request_id), 0) + coalesce(octet_length(request_body), 0) + coalesce(octet_length(last_error), 0)) * 17 / 16)) VIRTUAL,
	FOREIGN KEY (`company_id`) REFERENCES `companies`(`id`) ON UPDATE no action ON DELETE no action,
	FOREIGN KEY (`company_id`,`order_id`) REFERENCES `orders`(`company_id`,`id`) ON UPDATE no action ON DELETE no action,
	CONSTRAINT "accounting_outbox_operation" CHECK("accounting_outbox"."operation" IN ('create', 'update', 'delete')),
	CONSTRAINT "accounting_outbox_state" CHECK("accounting_outbox"."state" IN ('pending', 'sent', 'parked', 'dead', 'done'))
);
--> statement-breakpoint
CREATE UNIQUE INDEX `accounting_outbox_source` ON `accounting_outbox` (`company_id`,`source_id`);--> statement-breakpoint
CREATE INDEX `accounting_outbox_due` ON `accounting_outbox` (`company_id`,`next_attempt_at`,`id`,`order_id`) WHERE "accounting_outbox"."state" IN ('pending', 'sent');--> statement-breakpoint
CREATE INDEX `accounting_outbox_of_order` ON `accounting_outbox` (`company_id`,`order_id`,`state`,`id`) WHERE "accounting_outbox"."state" <> 'done';--> statement-breakpoint
CREATE INDEX `accounting_outbox_done` ON `accounting_outbox` (`updated_at`) WHERE "accounting_outbox"."state" = 'done';--> statement-breakpoint
CREATE TABLE `admin_log` (
	`id` integer PRIMARY KEY NOT NULL,
	`company_id` integer,
	`actor` text NOT NULL,
	`action` text NOT NULL,
	`entity_id` text NOT NULL,
	`address` text NOT NULL,
	`request_id` text NOT NULL,
	`at` integer NOT NULL,
	FOREIGN KEY (`company_id`) REFERENCES `companies`(`id`) ON UPDATE no action ON DELETE no action
);
--> statement-breakpoint
CREATE INDEX `admin_log_company` ON `admin_log` (`company_id`,`id`);--> statement-breakpoint
CREATE INDEX `admin_log_at` ON `admin_log` (`at`);--> statement-breakpoint
CREATE TABLE `api_tokens` (
	`id` integer PRIMARY KEY AUTOINCREMENT NOT NULL,
	`company_id` integer NOT NULL,
	`token_hash` text NOT NULL,
	`name` text NOT NULL,
	`permissions` text NOT NULL,
	`created_at` integer NOT NULL,
	`created_by` text,
	`last_used_at` integer,
	`expires_at` integer,
	`revoked_at` integer,
	FOREIGN KEY (`company_id`) REFERENCES `companies`(`id`) ON UPDATE no action ON DELETE no action
);
--> statement-breakpoint
CREATE UNIQUE INDEX `api_tokens_token_hash_unique` ON `api_tokens` (`token_hash`);--> statement-breakpoint
CREATE INDEX `api_tokens_company` ON `api_tokens` (`company_id`,`id`);--> statement-breakpoint
CREATE TABLE `artworks` (
	`company_id` integer NOT NULL,
	`id` integer NOT NULL,
	`project_id` integer NOT NULL,
	`name` text NOT NULL,
	`print_method` text,
	`placements` text DEFAULT '[]' NOT NULL,
	`colors` text DEFAULT '[]' NOT NULL,
	`preview_url` text,
	`status` text,
	`stored_bytes` integer GENERATED ALWAYS AS (52 + (coalesce(octet_length(name), 0) + coalesce(octet_length(print_method), 0) + coalesce(octet_length(placements), 0) + coalesce(octet_length(colors), 0) + coalesce(octet_length(preview_url), 0) + coalesce(octet_length(status), 0)) * 17 / 16) VIRTUAL,
	PRIMARY KEY(`company_id`, `id`),
	FOREIGN KEY (`company_id`) REFERENCES `companies`(`id`) ON UPDATE no action ON DELETE no action,
	FOREIGN KEY (`company_id`,`project_id`) REFERENCES `orders`(`company_id`,`id`) ON UPDATE no action ON DELETE no action,
	CONSTRAINT "artworks_json" CHECK(json_valid("artworks"."placements") AND json_valid("artworks"."colors"))
);
--> statement-breakpoint
CREATE INDEX `artworks_of_order` ON `artworks` (`company_id`,`project_id`,`id`);--> statement-breakpoint
CREATE TABLE `audit_log` (
	`company_id` integer NOT NULL,
	`id` integer NOT NULL,
	`token_id` integer NOT NULL,
	`request_id` text NOT NULL,
	`action` text NOT NULL,
	`entity_id` text NOT NULL,
	`at` integer NOT NULL,
	PRIMARY KEY(`company_id`, `id`),
	FOREIGN KEY (`company_id`) REFERENCES `companies`(`id`) ON UPDATE no action ON DELETE no action
) WITHOUT ROWID;
--> statement-breakpoint
CREATE TABLE `catalog_items` (
	`company_id` integer NOT NULL,
	`id` integer NOT NULL,
	`title` text NOT NULL,
	`description` text,
	`price_cents` integer,
	`deleted` integer DEFAULT false NOT NULL,
	`search_text` text NOT NULL,
	`version` integer DEFAULT 1 NOT NULL,
	`text_bytes` integer GENERATED ALWAYS AS (coalesce(octet_length(title), 0) + coalesce(octet_length(description), 0) + coalesce(octet_length(search_text), 0)) VIRTUAL,
	`stored_bytes` integer GENERATED ALWAYS AS (32 + text_bytes + iif(text_bytes % 4092 > 2040, 4096 - text_bytes % 4092, iif(text_bytes % 4092 > 1360, 2044 - text_bytes % 4092, text_bytes / 16)) + iif(deleted, 0, 48 + 17 * (length(search_text)) / 2 + 5 * min(length(search_text), 60) / 2)) VIRTUAL,
	PRIMARY KEY(`company_id`, `id`),
	FOREIGN KEY (`company_id`) REFERENCES `companies`(`id`) ON UPDATE no action ON DELETE no action
);
--> statement-breakpoint
CREATE TABLE `changes` (
	`company_id` integer NOT NULL,
	`sequence` integer NOT NULL,
	`type` text NOT NULL,
	`entity_id` text NOT NULL,
	`operation` text NOT NULL,
	`version` integer NOT NULL,
	`at` integer NOT NULL,
	`previous_updated_at` integer,
	`old_status_id` integer,
	`new_status_id` integer,
	PRIMARY KEY(`company_id`, `sequence`),
	FOREIGN KEY (`company_id`) REFERENCES `companies`(`id`) ON UPDATE no action ON DELETE no action
) WITHOUT ROWID;
--> statement-breakpoint
CREATE TABLE `clients` (
	`company_id` integer NOT NULL,
	`id` integer NOT NULL,
	`company_name` text NOT NULL,
	`first_name` text,
	`last_name` text,
	`email` text,
	`website` text,
	`phone` text,
	`company_name_key` text NOT NULL,
	`first_name_key` text,
	`last_name_key` text,
	`email_key` text,
	`phone_key` text,
	`phone_digits` text DEFAULT '' NOT NULL,
	`search_text` text GENERATED ALWAYS AS (company_name_key || coalesce(char(31) || coalesce(first_name_key || ' ' || last_name_key, first_name_key, last_name_key), '') || coalesce(char(31) || email_key, '') || coalesce(char(31) || phone_key, '')) VIRTUAL,
	`accounting_sync_enabled` integer DEFAULT false NOT NULL,
	`tax_exempt` integer DEFAULT false NOT NULL,
	`tax_exempt_reason` text,
	`deleted` integer DEFAULT false NOT NULL,
	`external_id` text,
	`version` integer DEFAULT 1 NOT NULL,
	`accounting_customer_id` text,
	`accounting_customer_linked` integer DEFAULT false NOT NULL,
	`created_at` integer NOT NULL,
	`updated_at` integer NOT NULL,
	`text_bytes` integer GENERATED ALWAYS AS (coalesce(octet_length(company_name), 0) + coalesce(octet_length(first_name), 0) + coalesce(octet_length(last_name), 0) + coalesce(octet_length(email), 0) + coalesce(octet_length(website), 0) + coalesce(octet_length(phone), 0) + coalesce(octet_length(company_name_key), 0) + coalesce(octet_length(first_name_key), 0) + coalesce(octet_length(last_name_key), 0) + coalesce(octet_length(email_key), 0) + coalesce(octet_length(phone_key), 0) + coalesce(octet_length(phone_digits), 0) + coalesce(octet_length(tax_exempt_reason), 0) + coalesce(octet_length(external_id), 0) + coalesce(octet_length(accounting_customer_id), 0)) VIRTUAL,
	`stored_bytes` integer GENERATED ALWAYS AS (225 + iif(text_bytes > 950, max(text_bytes, 4550), (text_bytes) * 9 / 8) + (coalesce(octet_length(email_key), 0) + coalesce(octet_length(external_id), 0)) * 5 / 4 + 17 * (length(company_name_key)) / 2 + 5 * min(length(company_name_key), 60) / 2 + iif(deleted, 0, 6 * (length(search_text) + length(phone_digits)) + 4 * min(length(search_text) + length(phone_digits), 110))) VIRTUAL,
	PRIMARY KEY(`company_id`, `id`),
	FOREIGN KEY (`company_id`) REFERENCES `companies`(`id`) ON UPDATE no action ON DELETE no action
) WITHOUT ROWID;
--> statement-breakpoint
CREATE INDEX `clients_email` ON `clients` (`company_id`,`email_key`,`deleted`,`id`);--> statement-breakpoint
CREATE INDEX `clients_live` ON `clients` (`company_id`,`id`) WHERE "clients"."deleted" = 0;--> statement-breakpoint
CREATE INDEX `clients_live_created` ON `clients` (`company_id`,`created_at`,`id`) WHERE "clients"."deleted" = 0;--> statement-breakpoint
CREATE INDEX `clients_live_updated` ON `clients` (`company_id`,`updated_at`,`id`) WHERE "clients"."deleted" = 0;--> statement-breakpoint
CREATE INDEX `clients_deleted` ON `clients` (`company_id`,`id`) WHERE "clients"."deleted" = 1;--> statement-breakpoint
CREATE INDEX `clients_deleted_created` ON `clients` (`company_id`,`created_at`,`id`) WHERE "clients"."deleted" = 1;--> statement-breakpoint
CREATE INDEX `clients_deleted_updated` ON `clients` (`company_id`,`updated_at`,`id`) WHERE "clients"."deleted" = 1;--> statement-breakpoint
CREATE UNIQUE INDEX `clients_external_id` ON `clients` (`company_id`,`external_id`) WHERE "clients"."external_id" IS NOT NULL;--> statement-breakpoint
CREATE TABLE `companies` (
	`id` integer PRIMARY KEY NOT NULL,
	`slot` integer NOT NULL,
	`database` text,
	`database_slot` integer,
	`name` text NOT NULL,
	`currency` text DEFAULT 'USD' NOT NULL,
	`accounting_sync_enabled` integer DEFAULT false NOT NULL,
	`suspended` integer DEFAULT false NOT NULL,
	`deliveries_paused` integer DEFAULT false NOT NULL,
	`backed_up_at` integer,
	`client_count` integer DEFAULT 0 NOT NULL,
	`order_count` integer DEFAULT 0 NOT NULL,
	`last_client_id` integer DEFAULT 0 NOT NULL,
	`last_order_id` integer DEFAULT 0 NOT NULL,
	`last_invoice_id` integer DEFAULT 0 NOT NULL,
	`last_invoice_number` integer DEFAULT 1000 NOT NULL,
	`last_invoice_item_id` integer DEFAULT 0 NOT NULL,
	`last_payment_id` integer DEFAULT 0 NOT NULL,
	`last_change` integer DEFAULT 0 NOT NULL,
	`mail_bytes` integer DEFAULT 0 NOT NULL,
	`mail_quota_bytes` integer DEFAULT 2147483648 NOT NULL,
	`mail_bytes_checked` integer DEFAULT 0 NOT NULL,
	`stored_bytes` integer DEFAULT 0 NOT NULL,
	`storage_quota_bytes` integer DEFAULT 2147483648 NOT NULL,
	`stored_bytes_checked` integer DEFAULT 0 NOT NULL,
	`audit_expired` integer DEFAULT 0 NOT NULL,
	`recounted_at` integer DEFAULT 0,
	`created_at` integer NOT NULL,
	`updated_at` integer NOT NULL,
	CONSTRAINT "companies_slot" CHECK("companies"."slot" BETWEEN 0 AND 1023)
);
--> statement-breakpoint
CREATE UNIQUE INDEX `companies_slot_unique` ON `companies` (`slot`) WHERE "companies"."database" IS NULL;--> statement-breakpoint
CREATE UNIQUE INDEX `companies_elsewhere` ON `companies` (`database`,`database_slot`) WHERE "companies"."database" IS NOT NULL;--> statement-breakpoint
CREATE TABLE `company_guards` (
	`company_id` integer PRIMARY KEY NOT NULL,
	`state` text NOT NULL,
	`destination` text NOT NULL,
	`slot` integer NOT NULL,
	`read_only_at` integer,
	CONSTRAINT "company_guards_state" CHECK("company_guards"."state" IN ('copying', 'read_only', 'moved', 'writable'))
);
--> statement-breakpoint
CREATE TABLE `email_thread_objects` (
	`id` text PRIMARY KEY NOT NULL,
	`company_id` integer NOT NULL,
	`content_hash` text NOT NULL,
	`bytes` integer NOT NULL,
	`state` text DEFAULT 'writing' NOT NULL,
	`thread_id` text,
	`remove_at` integer,
	FOREIGN KEY (`company_id`) REFERENCES `companies`(`id`) ON UPDATE no action ON DELETE no action,
	FOREIGN KEY (`thread_id`) REFERENCES `email_threads`(`id`) ON UPDATE no action ON DELETE no action
);
--> statement-breakpoint
CREATE INDEX `email_thread_objects_company` ON `email_thread_objects` (`company_id`,`id`);--> statement-breakpoint
CREATE UNIQUE INDEX `email_thread_objects_thread` ON `email_thread_objects` (`thread_id`) WHERE thread_id IS NOT NULL;--> statement-breakpoint
CREATE INDEX `email_thread_objects_removal` ON `email_thread_objects` (`remove_at`) WHERE remove_at IS NOT NULL;--> statement-breakpoint
CREATE INDEX `email_thread_objects_writing` ON `email_thread_objects` (`company_id`) WHERE state = 'writing';--> statement-breakpoint
CREATE TABLE `email_threads` (
	`id` text PRIMARY KEY NOT NULL,
	`company_id` integer NOT NULL,
	`account_email` text NOT NULL,
	`legacy_thread_id` text NOT NULL,
	`message_count` integer NOT NULL,
	`first_message_at` integer,
	`last_message_at` integer,
	`last_synced_at` integer NOT NULL,
	`content_hash` text NOT NULL,
	`content_bytes` integer DEFAULT 0 NOT NULL,
	`revision` integer NOT NULL,
	`content_revision` integer NOT NULL,
	`created_at` integer NOT NULL,
	`updated_at` integer NOT NULL,
	`deleted` integer DEFAULT false NOT NULL,
	`text_bytes` integer GENERATED ALWAYS AS (coalesce(octet_length(mail_thread_id), 0) + coalesce(octet_length(subject), 0) + coalesce(octet_length(snippet), 0) + coalesce(octet_length(mail_history_id), 0) + coalesce(octet_length(content), 0)) VIRTUAL,
	`stored_bytes` integer GENERATED ALWAYS AS (410 + 16 * octet_length(account_email) / 5 + 21 * octet_length(legacy_thread_id) / 10) VIRTUAL,
	`mail_thread_id` text,
	`subject` text,
	`snippet` text,
	`mail_history_id` text,
	`content` text,
	FOREIGN KEY (`company_id`) REFERENCES `companies`(`id`) ON UPDATE no action ON DELETE no action
);
--> statement-breakpoint
CREATE UNIQUE INDEX `email_threads_identity` ON `email_threads` (`company_id`,`legacy_thread_id`,`account_email`);--> statement-breakpoint
CREATE INDEX `email_threads_of_account` ON `email_threads` (`company_id`,`account_email`,`created_at`,`id`);--> statement-breakpoint
CREATE TABLE `idempotency_keys` (
	`company_id` integer NOT NULL,
	`token_id` integer NOT NULL,
	`key` text NOT NULL,
	`position` integer DEFAULT 0 NOT NULL,
	`fingerprint` text NOT NULL,
	`result` text,
	`created_at` integer NOT NULL,
	`text_bytes` integer GENERATED ALWAYS AS (coalesce(octet_length(key), 0) + coalesce(octet_length(fingerprint), 0) + coalesce(octet_length(result), 0)) VIRTUAL,
	`stored_bytes` integer GENERATED ALWAYS AS (58 + text_bytes + iif(text_bytes % 4092 > 2040, 4096 - text_bytes % 4092, iif(text_bytes % 4092 > 1360, 2044 - text_bytes % 4092, text_bytes / 16)) + octet_length(key)) VIRTUAL,
	PRIMARY KEY(`company_id`, `token_id`, `key`, `position`),
	FOREIGN KEY (`company_id`) REFERENCES `companies`(`id`) ON UPDATE no action ON DELETE no action
);
--> statement-breakpoint
CREATE TABLE `imports` (
	`company_id` integer NOT NULL,
	`hash` text NOT NULL,
	`parts` integer NOT NULL,
	`next_part` integer NOT NULL,
	`updated_at` integer NOT NULL,
	PRIMARY KEY(`company_id`, `hash`),
	FOREIGN KEY (`company_id`) REFERENCES `companies`(`id`) ON UPDATE no action ON DELETE no action
) WITHOUT ROWID;
--> statement-breakpoint
CREATE TABLE `integrations` (
	`company_id` integer NOT NULL,
	`kind` text NOT NULL,
	`enabled` integer DEFAULT false NOT NULL,
	`base_url` text NOT NULL,
	`settings` text DEFAULT '{}' NOT NULL,
	`credentials` text NOT NULL,
	`updated_at` integer NOT NULL,
	PRIMARY KEY(`company_id`, `kind`),
	FOREIGN KEY (`company_id`) REFERENCES `companies`(`id`) ON UPDATE no action ON DELETE no action
) WITHOUT ROWID;
--> statement-breakpoint
CREATE INDEX `integrations_accounting` ON `integrations` (`company_id`,`updated_at`) WHERE "integrations"."kind" = 'accounting_sync' AND "integrations"."enabled" = 1;--> statement-breakpoint
CREATE TABLE `invoice_items` (
	`company_id` integer NOT NULL,
	`id` integer NOT NULL,
	`invoice_id` integer NOT NULL,
	`title` text NOT NULL,
	`description` text,
	`quantity` real NOT NULL,
	`unit_price_cents` integer NOT NULL,
	`taxable` integer DEFAULT true NOT NULL,
	`supplier` text,
	`style` text,
	`color` text,
	`size` text,
	`sku` text,
	`position` integer DEFAULT 0 NOT NULL,
	`search_text` text NOT NULL,
	`text_bytes` integer GENERATED ALWAYS AS (coalesce(octet_length(title), 0) + coalesce(octet_length(description), 0) + coalesce(octet_length(supplier), 0) + coalesce(octet_length(style), 0) + coalesce(octet_length(color), 0) + coalesce(octet_length(size), 0) + coalesce(octet_length(sku), 0) + coalesce(octet_length(search_text), 0)) VIRTUAL,
	`stored_bytes` integer GENERATED ALWAYS AS (110 + text_bytes + iif(text_bytes % 4092 > 2040, 4096 - text_bytes % 4092, iif(text_bytes % 4092 > 1360, 2044 - text_bytes % 4092, text_bytes / 16)) + 17 * (min(length(search_text), length(title) + 201)) / 2 + 5 * min(min(length(search_text), length(title) + 201), 60) / 2) VIRTUAL,
	PRIMARY KEY(`company_id`, `id`),
	FOREIGN KEY (`company_id`) REFERENCES `companies`(`id`) ON UPDATE no action ON DELETE no action,
	FOREIGN KEY (`company_id`,`invoice_id`) REFERENCES `invoices`(`company_id`,`id`) ON UPDATE no action ON DELETE no action
);
--> statement-breakpoint
CREATE INDEX `invoice_items_of_invoice` ON `invoice_items` (`company_id`,`invoice_id`,`id`);--> statement-breakpoint
CREATE TABLE `invoices` (
	`company_id` integer NOT NULL,
	`id` integer NOT NULL,
	`project_id` integer NOT NULL,
	`number` text NOT NULL,
	`due_date` text,
	`tax_id` integer,
	`tax_exempt` integer DEFAULT false NOT NULL,
	`tax_exempt_reason` text,
	`discount_hundredths` integer DEFAULT 0 NOT NULL,
	`discount_amount_type` text DEFAULT 'percentage' NOT NULL,
	`discount_type` text DEFAULT 'before_tax' NOT NULL,
	`deleted` integer DEFAULT false NOT NULL,
	`created_at` integer NOT NULL,
	`updated_at` integer NOT NULL,
	`stored_bytes` integer GENERATED ALWAYS AS (100 + octet_length(number) + iif(coalesce(octet_length(number), 0) + coalesce(octet_length(tax_exempt_reason), 0) > 950, max(coalesce(octet_length(number), 0) + coalesce(octet_length(tax_exempt_reason), 0), 4550), (coalesce(octet_length(number), 0) + coalesce(octet_length(tax_exempt_reason), 0)) * 9 / 8)) VIRTUAL,
	PRIMARY KEY(`company_id`, `id`),
	FOREIGN KEY (`company_id`) REFERENCES `companies`(`id`) ON UPDATE no action ON DELETE no action,
	FOREIGN KEY (`company_id`,`project_id`) REFERENCES `orders`(`company_id`,`id`) ON UPDATE no action ON DELETE no action,
	FOREIGN KEY (`company_id`,`tax_id`) REFERENCES `taxes`(`company_id`,`id`) ON UPDATE no action ON DELETE no action,
	CONSTRAINT "invoices_discount" CHECK("invoices"."discount_hundredths" >= 0),
	CONSTRAINT "invoices_discount_amount_type" CHECK("invoices"."discount_amount_type" IN ('percentage', 'fixed_amount')),
	CONSTRAINT "invoices_discount_type" CHECK("invoices"."discount_type" IN ('before_tax', 'after_tax'))
) WITHOUT ROWID;
--> statement-breakpoint
CREATE UNIQUE INDEX `invoices_of_order` ON `invoices` (`company_id`,`project_id`);--> statement-breakpoint
CREATE UNIQUE INDEX `invoices_number` ON `invoices` (`company_id`,`number`);--> statement-breakpoint
CREATE TABLE `members` (
	`company_id` integer NOT NULL,
	`email` text NOT NULL,
	`role` text NOT NULL,
	`created_at` integer NOT NULL,
	PRIMARY KEY(`company_id`, `email`),
	FOREIGN KEY (`company_id`) REFERENCES `companies`(`id`) ON UPDATE no action ON DELETE no action
) WITHOUT ROWID;
--> statement-breakpoint
CREATE INDEX `members_email` ON `members` (`email`,`company_id`);--> statement-breakpoint
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
CREATE TABLE `order_statuses` (
	`company_id` integer NOT NULL,
	`id` integer NOT NULL,
	`title` text NOT NULL,
	`color` text,
	`workflow_key` text,
	`position` integer DEFAULT 0 NOT NULL,
	`is_default` integer DEFAULT false NOT NULL,
	`deleted` integer DEFAULT false NOT NULL,
	PRIMARY KEY(`company_id`, `id`),
	FOREIGN KEY (`company_id`) REFERENCES `companies`(`id`) ON UPDATE no action ON DELETE no action
) WITHOUT ROWID;
--> statement-breakpoint
CREATE INDEX `order_statuses_default` ON `order_statuses` (`company_id`,`position`,`id`) WHERE "order_statuses"."is_default" = 1 AND "order_statuses"."deleted" = 0;--> statement-breakpoint
CREATE TABLE `orders` (
	`company_id` integer NOT NULL,
	`id` integer NOT NULL,
	`title` text NOT NULL,
	`client_id` integer NOT NULL,
	`description` text,
	`start_date` text,
	`deadline` text,
	`order_status_id` integer,
	`client_notes` text,
	`created_date` text NOT NULL,
	`created_at` integer NOT NULL,
	`updated_at` integer NOT NULL,
	`deleted` integer DEFAULT false NOT NULL,
	`external_id` text,
	`version` integer DEFAULT 1 NOT NULL,
	`title_key` text DEFAULT '' NOT NULL,
	`number_key` text DEFAULT '' NOT NULL,
	`text_bytes` integer GENERATED ALWAYS AS (coalesce(octet_length(title), 0) + coalesce(octet_length(description), 0) + coalesce(octet_length(start_date), 0) + coalesce(octet_length(deadline), 0) + coalesce(octet_length(client_notes), 0) + coalesce(octet_length(created_date), 0) + coalesce(octet_length(external_id), 0) + coalesce(octet_length(title_key), 0) + coalesce(octet_length(number_key), 0)) VIRTUAL,
	`stored_bytes` integer GENERATED ALWAYS AS (225 + iif(text_bytes > 950, max(text_bytes, 4550), (text_bytes) * 9 / 8) + (coalesce(octet_length(external_id), 0)) * 5 / 4 + 17 * (length(title_key) + length(number_key)) / 2 + 5 * min(length(title_key) + length(number_key), 60) / 2) VIRTUAL,
	PRIMARY KEY(`company_id`, `id`),
	FOREIGN KEY (`company_id`) REFERENCES `companies`(`id`) ON UPDATE no action ON DELETE no action,
	FOREIGN KEY (`company_id`,`client_id`) REFERENCES `clients`(`company_id`,`id`) ON UPDATE no action ON DELETE no action,
	FOREIGN KEY (`company_id`,`order_status_id`) REFERENCES `order_statuses`(`company_id`,`id`) ON UPDATE no action ON DELETE no action
) WITHOUT ROWID;
--> statement-breakpoint
CREATE INDEX `orders_live` ON `orders` (`company_id`,`created_date`,`id`) WHERE "orders"."deleted" = 0;--> statement-breakpoint
CREATE INDEX `orders_of_client` ON `orders` (`company_id`,`client_id`,`created_date`,`id`,`order_status_id`) WHERE "orders"."deleted" = 0;--> statement-breakpoint
CREATE INDEX `orders_of_status` ON `orders` (`company_id`,`order_status_id`,`created_date`,`id`) WHERE "orders"."deleted" = 0;--> statement-breakpoint
CREATE INDEX `orders_live_created` ON `orders` (`company_id`,`created_at`,`id`) WHERE "orders"."deleted" = 0;--> statement-breakpoint
CREATE INDEX `orders_live_updated` ON `orders` (`company_id`,`updated_at`,`id`) WHERE "orders"."deleted" = 0;--> statement-breakpoint
CREATE INDEX `orders_deleted` ON `orders` (`company_id`,`created_date`,`id`) WHERE "orders"."deleted" = 1;--> statement-breakpoint
CREATE INDEX `orders_deleted_id` ON `orders` (`company_id`,`id`) WHERE "orders"."deleted" = 1;--> statement-breakpoint
CREATE INDEX `orders_deleted_created` ON `orders` (`company_id`,`created_at`,`id`) WHERE "orders"."deleted" = 1;--> statement-breakpoint
CREATE INDEX `orders_deleted_updated` ON `orders` (`company_id`,`updated_at`,`id`) WHERE "orders"."deleted" = 1;--> statement-breakpoint
CREATE UNIQUE INDEX `orders_external_id` ON `orders` (`company_id`,`external_id`) WHERE "orders"."external_id" IS NOT NULL;--> statement-breakpoint
CREATE TABLE `payments` (
	`company_id` integer NOT NULL,
	`id` integer NOT NULL,
	`invoice_id` integer NOT NULL,
	`amount_cents` integer NOT NULL,
	`method` text,
	`paid_at` text,
	`note` text,
	`stored_bytes` integer GENERATED ALWAYS AS (31 + iif(coalesce(octet_length(method), 0) + coalesce(octet_length(paid_at), 0) + coalesce(octet_length(note), 0) > 950, max(coalesce(octet_length(method), 0) + coalesce(octet_length(paid_at), 0) + coalesce(octet_length(note), 0), 4550), (coalesce(octet_length(method), 0) + coalesce(octet_length(paid_at), 0) + coalesce(octet_length(note), 0)) * 9 / 8)) VIRTUAL,
	PRIMARY KEY(`company_id`, `invoice_id`, `id`),
	FOREIGN KEY (`company_id`) REFERENCES `companies`(`id`) ON UPDATE no action ON DELETE no action,
	FOREIGN KEY (`company_id`,`invoice_id`) REFERENCES `invoices`(`company_id`,`id`) ON UPDATE no action ON DELETE no action
) WITHOUT ROWID;
--> statement-breakpoint
CREATE UNIQUE INDEX `payments_id` ON `payments` (`company_id`,`id`);--> statement-breakpoint
CREATE TABLE `taxes` (
	`company_id` integer NOT NULL,
	`id` integer NOT NULL,
	`name` text NOT NULL,
	`rate` real NOT NULL,
	`accounting_tax_code_id` text,
	`deleted` integer DEFAULT false NOT NULL,
	PRIMARY KEY(`company_id`, `id`),
	FOREIGN KEY (`company_id`) REFERENCES `companies`(`id`) ON UPDATE no action ON DELETE no action
) WITHOUT ROWID;
--> statement-breakpoint
CREATE TABLE `thread_context_links` (
	`company_id` integer NOT NULL,
	`entity` text NOT NULL,
	`entity_id` integer NOT NULL,
	`thread_id` text NOT NULL,
	PRIMARY KEY(`company_id`, `entity`, `entity_id`, `thread_id`),
	FOREIGN KEY (`company_id`) REFERENCES `companies`(`id`) ON UPDATE no action ON DELETE no action
) WITHOUT ROWID;
--> statement-breakpoint
CREATE INDEX `thread_context_links_of_thread` ON `thread_context_links` (`company_id`,`thread_id`);--> statement-breakpoint
CREATE TABLE `thread_contexts` (
	`company_id` integer NOT NULL,
	`thread_id` text NOT NULL,
	`legacy_thread_id` text,
	`sender_email` text,
	`client_id` text,
	`client_data` text,
	`clients_data` text,
	`orders_data` text,
	`selected_order_id` text,
	`participant_emails` text,
	`participants_data` text,
	`fetched_at` integer NOT NULL,
	`updated_at` integer NOT NULL,
	`version` integer DEFAULT 1 NOT NULL,
	`text_bytes` integer GENERATED ALWAYS AS (coalesce(octet_length(thread_id), 0) + coalesce(octet_length(legacy_thread_id), 0) + coalesce(octet_length(sender_email), 0) + coalesce(octet_length(client_id), 0) + coalesce(octet_length(client_data), 0) + coalesce(octet_length(clients_data), 0) + coalesce(octet_length(orders_data), 0) + coalesce(octet_length(selected_order_id), 0) + coalesce(octet_length(participant_emails), 0) + coalesce(octet_length(participants_data), 0)) VIRTUAL,
	`stored_bytes` integer GENERATED ALWAYS AS (70 + text_bytes + iif(text_bytes % 4092 > 2040, 4096 - text_bytes % 4092, iif(text_bytes % 4092 > 1360, 2044 - text_bytes % 4092, text_bytes / 16)) + coalesce(octet_length(thread_id), 0) + coalesce(octet_length(legacy_thread_id), 0) + (max(json_array_length(iif(json_valid(clients_data), clients_data, '[]')), client_id IS NOT NULL) + json_array_length(iif(json_valid(orders_data), orders_data, '[]'))) * (36 + 11 * octet_length(thread_id) / 5)) VIRTUAL,
	PRIMARY KEY(`company_id`, `thread_id`),
	FOREIGN KEY (`company_id`) REFERENCES `companies`(`id`) ON UPDATE no action ON DELETE no action,
	CONSTRAINT "thread_contexts_json" CHECK(json_valid("thread_contexts"."client_data") AND json_valid("thread_contexts"."clients_data") AND json_valid("thread_contexts"."orders_data") AND json_valid("thread_contexts"."participant_emails") AND json_valid("thread_contexts"."participants_data") AND json_type("thread_contexts"."client_data") = 'object')
);
--> statement-breakpoint
CREATE INDEX `thread_contexts_legacy` ON `thread_contexts` (`company_id`,`legacy_thread_id`,`updated_at`,`thread_id`);--> statement-breakpoint
CREATE TABLE `webhook_deliveries` (
	`company_id` integer NOT NULL,
	`endpoint_id` text NOT NULL,
	`type` text NOT NULL,
	`entity_id` text NOT NULL,
	`sequence` integer NOT NULL,
	`attempts` integer DEFAULT 0 NOT NULL,
	`first_attempt_at` integer,
	`next_attempt_at` integer,
	`last_error` text,
	`stored_bytes` integer GENERATED ALWAYS AS (54 + 2 * (coalesce(octet_length(endpoint_id), 0) + coalesce(octet_length(type), 0) + coalesce(octet_length(entity_id), 0)) + (coalesce(octet_length(last_error), 0)) * 9 / 8) VIRTUAL,
	PRIMARY KEY(`company_id`, `endpoint_id`, `type`, `entity_id`, `sequence`),
	FOREIGN KEY (`company_id`) REFERENCES `companies`(`id`) ON UPDATE no action ON DELETE no action,
	FOREIGN KEY (`company_id`,`endpoint_id`) REFERENCES `webhook_endpoints`(`company_id`,`id`) ON UPDATE no action ON DELETE no action
) WITHOUT ROWID;
--> statement-breakpoint
CREATE INDEX `webhook_deliveries_due` ON `webhook_deliveries` (`company_id`,`endpoint_id`,`next_attempt_at`) WHERE "webhook_deliveries"."next_attempt_at" IS NOT NULL;--> statement-breakpoint
CREATE TABLE `webhook_endpoints` (
	`company_id` integer NOT NULL,
	`id` text NOT NULL,
	`url` text NOT NULL,
	`secret` text NOT NULL,
	`event_types` text NOT NULL,
	`enabled` integer DEFAULT true NOT NULL,
	`disabled_reason` text,
	`position` integer NOT NULL,
	`replay_position` integer,
	`replay_end` integer,
	`initial_failures` integer,
	`created_at` integer NOT NULL,
	`updated_at` integer NOT NULL,
	PRIMARY KEY(`company_id`, `id`),
	FOREIGN KEY (`company_id`) REFERENCES `companies`(`id`) ON UPDATE no action ON DELETE no action
) WITHOUT ROWID;
--> statement-breakpoint
-- Written by hand from here on: drizzle-kit knows neither full-text tables nor triggers.
-- Text comes folded from the application (src/kernel/db/search.ts), so the tokenizer compares as it is. A rowid is
-- `(slot << 53) | id`: a company's rows are one range of rowids, so that a search never walks another company's hits.
-- BEGIN and END in capitals and no CASE in triggers: the remote splitter needs both.
-- `spaced` has U+001E around every character, so that its trigrams are one (`^A^`) and two (`A^B`) characters of the text.
CREATE VIRTUAL TABLE clients_fts USING fts5(text, digits, spaced, content='', contentless_delete=1, tokenize='trigram case_sensitive 1');
--> statement-breakpoint
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
-- A changed text is one row written; a deletion and an insertion are two.
CREATE TRIGGER clients_search AFTER UPDATE ON clients
WHEN old.deleted = 0 AND new.deleted = 0 AND (old.search_text <> new.search_text OR old.phone_digits <> new.phone_digits) BEGIN
  UPDATE clients_fts SET text = new.search_text, digits = new.phone_digits, spaced = (
      SELECT char(30) || group_concat(substr(text, key + 1, 1), char(30)) || char(30)
      FROM (SELECT new.search_text || char(31) || new.phone_digits AS text),
        json_each('[' || rtrim(replace(hex(zeroblob(length(text))), '00', '0,'), ',') || ']'))
    WHERE rowid = (SELECT (slot << 53) | new.id FROM companies WHERE id = new.company_id);
END;
--> statement-breakpoint
CREATE TRIGGER clients_search_deleted AFTER UPDATE OF deleted ON clients WHEN old.deleted <> new.deleted BEGIN
  DELETE FROM clients_fts WHERE rowid = (SELECT (slot << 53) | old.id FROM companies WHERE id = old.company_id AND old.deleted = 0);
  INSERT INTO clients_fts (rowid, text, digits, spaced)
    SELECT (slot << 53) | new.id, new.search_text, new.phone_digits, (
      SELECT char(30) || group_concat(substr(text, key + 1, 1), char(30)) || char(30)
      FROM json_each('[' || rtrim(replace(hex(zeroblob(length(text))), '00', '0,'), ',') || ']'))
    FROM (SELECT slot, new.search_text || char(31) || new.phone_digits AS text FROM companies
      WHERE id = new.company_id AND new.deleted = 0 LIMIT 1);
END;
--> statement-breakpoint
CREATE TRIGGER clients_name AFTER UPDATE OF company_name_key ON clients WHEN old.company_name_key <> new.company_name_key BEGIN
  UPDATE client_names_fts SET text = new.company_name_key, spaced = (
      SELECT char(30) || group_concat(substr(new.company_name_key, key + 1, 1), char(30)) || char(30)
      FROM json_each('[' || rtrim(replace(hex(zeroblob(length(new.company_name_key))), '00', '0,'), ',') || ']'))
    WHERE rowid = (SELECT (slot << 53) | new.id FROM companies WHERE id = new.company_id);
END;
--> statement-breakpoint
CREATE TRIGGER orders_search AFTER UPDATE OF title_key, number_key ON orders
WHEN old.title_key <> new.title_key OR old.number_key <> new.number_key BEGIN
  UPDATE orders_fts SET text = new.title_key || char(31) || new.number_key, spaced = (
      SELECT char(30) || group_concat(substr(text, key + 1, 1), char(30)) || char(30)
      FROM (SELECT new.title_key || char(31) || new.number_key AS text),
        json_each('[' || rtrim(replace(hex(zeroblob(length(text))), '00', '0,'), ',') || ']'))
    WHERE rowid = (SELECT (slot << 53) | new.id FROM companies WHERE id = new.company_id);
END;
--> statement-breakpoint
CREATE TRIGGER catalog_items_insert AFTER INSERT ON catalog_items BEGIN
  UPDATE companies SET stored_bytes = stored_bytes + new.stored_bytes WHERE id = new.company_id;
  INSERT INTO catalog_items_fts (rowid, text, spaced)
    SELECT (slot << 53) | new.id, new.search_text, (
      SELECT char(30) || group_concat(substr(new.search_text, key + 1, 1), char(30)) || char(30)
      FROM json_each('[' || rtrim(replace(hex(zeroblob(length(new.search_text))), '00', '0,'), ',') || ']'))
    FROM companies WHERE id = new.company_id AND new.deleted = 0;
END;
--> statement-breakpoint
CREATE TRIGGER catalog_items_update AFTER UPDATE ON catalog_items
WHEN old.search_text <> new.search_text OR old.deleted <> new.deleted OR old.stored_bytes <> new.stored_bytes BEGIN
  UPDATE companies SET stored_bytes = stored_bytes + new.stored_bytes - old.stored_bytes WHERE id = new.company_id AND new.stored_bytes <> old.stored_bytes;
  DELETE FROM catalog_items_fts WHERE rowid = (SELECT (slot << 53) | old.id FROM companies WHERE id = old.company_id AND old.deleted = 0
    AND (old.search_text <> new.search_text OR old.deleted <> new.deleted));
  INSERT INTO catalog_items_fts (rowid, text, spaced)
    SELECT (slot << 53) | new.id, new.search_text, (
      SELECT char(30) || group_concat(substr(new.search_text, key + 1, 1), char(30)) || char(30)
      FROM json_each('[' || rtrim(replace(hex(zeroblob(length(new.search_text))), '00', '0,'), ',') || ']'))
    FROM companies WHERE id = new.company_id AND new.deleted = 0
      AND (old.search_text <> new.search_text OR old.deleted <> new.deleted);
END;
--> statement-breakpoint
-- Triggers count a company's stored bytes of email threads: texts and content in rows, and objects in R2.
CREATE TRIGGER email_threads_update AFTER UPDATE OF mail_thread_id, subject, snippet, mail_history_id, content ON email_threads
WHEN new.text_bytes <> old.text_bytes BEGIN
  UPDATE companies SET mail_bytes = mail_bytes + new.text_bytes - old.text_bytes WHERE id = new.company_id;
END;
--> statement-breakpoint
-- A sync that changes nothing but the time of the sync is no change.
CREATE TRIGGER email_threads_change AFTER UPDATE OF revision ON email_threads
WHEN new.content_revision <> old.content_revision OR new.deleted <> old.deleted
  OR new.mail_thread_id IS NOT old.mail_thread_id OR new.subject IS NOT old.subject
  OR new.snippet IS NOT old.snippet OR new.mail_history_id IS NOT old.mail_history_id
  OR new.first_message_at IS NOT old.first_message_at OR new.last_message_at IS NOT old.last_message_at BEGIN
  UPDATE companies SET last_change = last_change + 1 WHERE id = new.company_id;
  INSERT INTO changes (company_id, sequence, type, entity_id, operation, version, at, previous_updated_at)
    SELECT id, last_change, 'email_threads', new.id, iif(new.deleted, 'delete', 'update'), new.revision, CAST(unixepoch('subsec') * 1000 AS INTEGER), old.updated_at
    FROM companies WHERE id = new.company_id;
END;
--> statement-breakpoint
-- UNION removes what is named twice: OR IGNORE would not, since an upsert's own conflict clause takes its place.
CREATE TRIGGER thread_contexts_insert AFTER INSERT ON thread_contexts BEGIN
  UPDATE companies SET stored_bytes = stored_bytes + new.stored_bytes WHERE id = new.company_id;
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
CREATE TRIGGER thread_contexts_update AFTER UPDATE ON thread_contexts
WHEN new.stored_bytes <> old.stored_bytes OR new.client_id IS NOT old.client_id
  OR new.clients_data IS NOT old.clients_data OR new.orders_data IS NOT old.orders_data BEGIN
  UPDATE companies SET stored_bytes = stored_bytes + new.stored_bytes - old.stored_bytes WHERE id = new.company_id AND new.stored_bytes <> old.stored_bytes;
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
  UPDATE companies SET stored_bytes = stored_bytes - old.stored_bytes WHERE id = old.company_id;
  DELETE FROM thread_context_links WHERE company_id = old.company_id AND thread_id = old.thread_id;
END;
--> statement-breakpoint
CREATE TRIGGER email_thread_objects_insert AFTER INSERT ON email_thread_objects WHEN new.thread_id IS NOT NULL BEGIN
  UPDATE companies SET mail_bytes = mail_bytes + new.bytes WHERE id = new.company_id;
END;
--> statement-breakpoint
CREATE TRIGGER email_thread_objects_update AFTER UPDATE OF thread_id ON email_thread_objects
WHEN (new.thread_id IS NULL) <> (old.thread_id IS NULL) BEGIN
  UPDATE companies SET mail_bytes = mail_bytes + iif(new.thread_id IS NULL, -new.bytes, new.bytes) WHERE id = new.company_id;
END;
--> statement-breakpoint
CREATE TRIGGER email_thread_objects_delete AFTER DELETE ON email_thread_objects WHEN old.thread_id IS NOT NULL BEGIN
  UPDATE companies SET mail_bytes = mail_bytes - old.bytes WHERE id = old.company_id;
END;
--> statement-breakpoint
CREATE TRIGGER invoice_items_insert AFTER INSERT ON invoice_items BEGIN
  UPDATE companies SET stored_bytes = stored_bytes + new.stored_bytes,
      last_invoice_item_id = max(last_invoice_item_id, new.id) WHERE id = new.company_id;
  INSERT INTO invoice_items_fts (rowid, text, spaced)
    SELECT (slot << 53) | new.id, text, (
      SELECT char(30) || group_concat(substr(text, key + 1, 1), char(30)) || char(30)
      FROM json_each('[' || rtrim(replace(hex(zeroblob(length(text))), '00', '0,'), ',') || ']'))
    FROM (SELECT slot, substr(new.search_text, 1, 1400) AS text FROM companies WHERE id = new.company_id LIMIT 1);
END;
--> statement-breakpoint
CREATE TRIGGER invoice_items_update AFTER UPDATE ON invoice_items
WHEN old.search_text <> new.search_text OR old.stored_bytes <> new.stored_bytes BEGIN
  UPDATE companies SET stored_bytes = stored_bytes + new.stored_bytes - old.stored_bytes WHERE id = new.company_id AND new.stored_bytes <> old.stored_bytes;
  DELETE FROM invoice_items_fts WHERE rowid = (SELECT (slot << 53) | old.id FROM companies WHERE id = old.company_id
    AND old.search_text <> new.search_text);
  INSERT INTO invoice_items_fts (rowid, text, spaced)
    SELECT (slot << 53) | new.id, text, (
      SELECT char(30) || group_concat(substr(text, key + 1, 1), char(30)) || char(30)
      FROM json_each('[' || rtrim(replace(hex(zeroblob(length(text))), '00', '0,'), ',') || ']'))
    FROM (SELECT slot, substr(new.search_text, 1, 1400) AS text FROM companies WHERE id = new.company_id
      AND old.search_text <> new.search_text LIMIT 1);
END;
--> statement-breakpoint
CREATE TRIGGER invoice_items_delete AFTER DELETE ON invoice_items BEGIN
  UPDATE companies SET stored_bytes = stored_bytes - old.stored_bytes WHERE id = old.company_id;
  DELETE FROM invoice_items_fts WHERE rowid = (SELECT (slot << 53) | old.id FROM companies WHERE id = old.company_id);
END;
--> statement-breakpoint
CREATE TRIGGER clients_insert AFTER INSERT ON clients BEGIN
  UPDATE companies SET client_count = client_count + 1 - new.deleted, last_client_id = max(last_client_id, new.id),
      last_change = last_change + 1, stored_bytes = stored_bytes + new.stored_bytes
    WHERE id = new.company_id;
  INSERT INTO changes (company_id, sequence, type, entity_id, operation, version, at, previous_updated_at)
    SELECT id, last_change, 'clients', new.id, iif(new.deleted, 'delete', 'create'), new.version, CAST(unixepoch('subsec') * 1000 AS INTEGER), NULL
    FROM companies WHERE id = new.company_id;
  INSERT INTO clients_fts (rowid, text, digits, spaced)
    SELECT (slot << 53) | new.id, new.search_text, new.phone_digits, (
      SELECT char(30) || group_concat(substr(text, key + 1, 1), char(30)) || char(30)
      FROM json_each('[' || rtrim(replace(hex(zeroblob(length(text))), '00', '0,'), ',') || ']'))
    FROM (SELECT slot, new.search_text || char(31) || new.phone_digits AS text FROM companies
      WHERE id = new.company_id AND new.deleted = 0 LIMIT 1);
  INSERT INTO client_names_fts (rowid, text, spaced)
    SELECT (slot << 53) | new.id, new.company_name_key, (
      SELECT char(30) || group_concat(substr(new.company_name_key, key + 1, 1), char(30)) || char(30)
      FROM json_each('[' || rtrim(replace(hex(zeroblob(length(new.company_name_key))), '00', '0,'), ',') || ']'))
    FROM companies WHERE id = new.company_id;
END;
--> statement-breakpoint
CREATE TRIGGER orders_insert AFTER INSERT ON orders BEGIN
  UPDATE companies SET order_count = order_count + 1 - new.deleted, last_order_id = max(last_order_id, new.id),
      last_change = last_change + 1, stored_bytes = stored_bytes + new.stored_bytes
    WHERE id = new.company_id;
  INSERT INTO changes (company_id, sequence, type, entity_id, operation, version, at, previous_updated_at)
    SELECT id, last_change, 'orders', new.id, iif(new.deleted, 'delete', 'create'), new.version, CAST(unixepoch('subsec') * 1000 AS INTEGER), NULL
    FROM companies WHERE id = new.company_id;
  INSERT INTO orders_fts (rowid, text, spaced)
    SELECT (slot << 53) | new.id, text, (
      SELECT char(30) || group_concat(substr(text, key + 1, 1), char(30)) || char(30)
      FROM json_each('[' || rtrim(replace(hex(zeroblob(length(text))), '00', '0,'), ',') || ']'))
    FROM (SELECT slot, new.title_key || char(31) || new.number_key AS text FROM companies WHERE id = new.company_id LIMIT 1);
END;
--> statement-breakpoint
CREATE TRIGGER email_threads_insert AFTER INSERT ON email_threads BEGIN
  UPDATE companies SET last_change = last_change + 1, stored_bytes = stored_bytes + new.stored_bytes,
      mail_bytes = mail_bytes + new.text_bytes WHERE id = new.company_id;
  INSERT INTO changes (company_id, sequence, type, entity_id, operation, version, at, previous_updated_at)
    SELECT id, last_change, 'email_threads', new.id, iif(new.deleted, 'delete', 'create'), new.revision, CAST(unixepoch('subsec') * 1000 AS INTEGER), NULL
    FROM companies WHERE id = new.company_id;
END;
--> statement-breakpoint
CREATE TRIGGER clients_change AFTER UPDATE ON clients
WHEN new.version <> old.version OR new.deleted <> old.deleted OR new.stored_bytes <> old.stored_bytes BEGIN
  UPDATE companies SET last_change = last_change + (new.version <> old.version),
      client_count = client_count + old.deleted - new.deleted,
      stored_bytes = stored_bytes + new.stored_bytes - old.stored_bytes WHERE id = new.company_id;
  INSERT INTO changes (company_id, sequence, type, entity_id, operation, version, at, previous_updated_at)
    SELECT id, last_change, 'clients', new.id, iif(new.deleted, 'delete', 'update'), new.version, CAST(unixepoch('subsec') * 1000 AS INTEGER), old.updated_at
    FROM companies WHERE id = new.company_id AND new.version <> old.version;
END;
--> statement-breakpoint
CREATE TRIGGER orders_change AFTER UPDATE ON orders
WHEN new.version <> old.version OR new.deleted <> old.deleted OR new.stored_bytes <> old.stored_bytes BEGIN
  UPDATE companies SET last_change = last_change
        + (new.version <> old.version) * (1 + (new.order_status_id IS NOT old.order_status_id)),
      order_count = order_count + old.deleted - new.deleted,
      stored_bytes = stored_bytes + new.stored_bytes - old.stored_bytes WHERE id = new.company_id;
  INSERT INTO changes (company_id, sequence, type, entity_id, operation, version, at, previous_updated_at)
    SELECT id, last_change - (new.order_status_id IS NOT old.order_status_id), 'orders', new.id,
      iif(new.deleted, 'delete', 'update'), new.version, CAST(unixepoch('subsec') * 1000 AS INTEGER), old.updated_at
    FROM companies WHERE id = new.company_id AND new.version <> old.version;
  INSERT INTO changes (company_id, sequence, type, entity_id, operation, version, at, previous_updated_at, old_status_id, new_status_id)
    SELECT id, last_change, 'orders', new.id, 'status_changed', new.version, CAST(unixepoch('subsec') * 1000 AS INTEGER),
      old.updated_at, old.order_status_id, new.order_status_id
    FROM companies WHERE id = new.company_id AND new.version <> old.version AND new.order_status_id IS NOT old.order_status_id;
END;
--> statement-breakpoint
CREATE TRIGGER invoices_insert AFTER INSERT ON invoices BEGIN
  UPDATE companies SET stored_bytes = stored_bytes + new.stored_bytes,
      last_invoice_id = max(last_invoice_id, new.id), last_invoice_number = iif(
      (new.number NOT GLOB '*[^0-9]*' AND length(new.number) BETWEEN 1 AND 15) OR new.number = CAST(last_invoice_number + 1 AS TEXT),
      max(last_invoice_number, CAST(new.number AS INTEGER)), last_invoice_number)
    WHERE id = new.company_id;
END;
--> statement-breakpoint
CREATE TRIGGER payments_insert AFTER INSERT ON payments BEGIN
  UPDATE companies SET stored_bytes = stored_bytes + new.stored_bytes, last_payment_id = max(last_payment_id, new.id) WHERE id = new.company_id;
END;
--> statement-breakpoint
CREATE TRIGGER invoices_update AFTER UPDATE ON invoices WHEN new.stored_bytes <> old.stored_bytes BEGIN
  UPDATE companies SET stored_bytes = stored_bytes + new.stored_bytes - old.stored_bytes WHERE id = new.company_id;
END;
--> statement-breakpoint
CREATE TRIGGER payments_update AFTER UPDATE ON payments WHEN new.stored_bytes <> old.stored_bytes BEGIN
  UPDATE companies SET stored_bytes = stored_bytes + new.stored_bytes - old.stored_bytes WHERE id = new.company_id;
END;
--> statement-breakpoint
CREATE TRIGGER payments_delete AFTER DELETE ON payments BEGIN
  UPDATE companies SET stored_bytes = stored_bytes - old.stored_bytes WHERE id = old.company_id;
END;
--> statement-breakpoint
CREATE TRIGGER artworks_insert AFTER INSERT ON artworks BEGIN
  UPDATE companies SET stored_bytes = stored_bytes + new.stored_bytes WHERE id = new.company_id;
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
-- Removed results are subtracted by the statement that removes them, all at once.
CREATE TRIGGER idempotency_keys_insert AFTER INSERT ON idempotency_keys BEGIN
  UPDATE companies SET stored_bytes = stored_bytes + new.stored_bytes WHERE id = new.company_id;
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
-- The last step of every migration that makes an index, for databases that have rows by then.
PRAGMA optimize;
