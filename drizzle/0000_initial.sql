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
	PRIMARY KEY(`company_id`, `order_id`),
	FOREIGN KEY (`company_id`) REFERENCES `companies`(`id`) ON UPDATE no action ON DELETE no action,
	FOREIGN KEY (`company_id`,`order_id`) REFERENCES `orders`(`company_id`,`id`) ON UPDATE no action ON DELETE no action
) WITHOUT ROWID;
--> statement-breakpoint
CREATE TABLE `accounting_outbox` (
	`id` integer PRIMARY KEY AUTOINCREMENT NOT NULL,
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
	FOREIGN KEY (`company_id`) REFERENCES `companies`(`id`) ON UPDATE no action ON DELETE no action,
	FOREIGN KEY (`company_id`,`order_id`) REFERENCES `orders`(`company_id`,`id`) ON UPDATE no action ON DELETE no action,
	CONSTRAINT "accounting_outbox_operation" CHECK("accounting_outbox"."operation" IN ('create', 'update', 'delete')),
	CONSTRAINT "accounting_outbox_state" CHECK("accounting_outbox"."state" IN ('pending', 'sent', 'parked', 'dead', 'done'))
);
--> statement-breakpoint
CREATE INDEX `accounting_outbox_due` ON `accounting_outbox` (`company_id`,`next_attempt_at`,`id`,`order_id`) WHERE "accounting_outbox"."state" IN ('pending', 'sent');--> statement-breakpoint
CREATE INDEX `accounting_outbox_of_order` ON `accounting_outbox` (`company_id`,`order_id`,`state`,`id`) WHERE "accounting_outbox"."state" <> 'done';--> statement-breakpoint
CREATE INDEX `accounting_outbox_done` ON `accounting_outbox` (`updated_at`) WHERE "accounting_outbox"."state" = 'done';--> statement-breakpoint
CREATE TABLE `api_tokens` (
	`id` integer PRIMARY KEY AUTOINCREMENT NOT NULL,
	`company_id` integer NOT NULL,
	`token_hash` text NOT NULL,
	`name` text NOT NULL,
	`permissions` text NOT NULL,
	`created_at` integer NOT NULL,
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
	PRIMARY KEY(`company_id`, `id`),
	FOREIGN KEY (`company_id`) REFERENCES `companies`(`id`) ON UPDATE no action ON DELETE no action,
	FOREIGN KEY (`company_id`,`project_id`) REFERENCES `orders`(`company_id`,`id`) ON UPDATE no action ON DELETE no action,
	CONSTRAINT "artworks_json" CHECK(json_valid("artworks"."placements") AND json_valid("artworks"."colors"))
);
--> statement-breakpoint
CREATE INDEX `artworks_of_order` ON `artworks` (`company_id`,`project_id`,`id`);--> statement-breakpoint
CREATE TABLE `audit_log` (
	`id` integer PRIMARY KEY NOT NULL,
	`company_id` integer NOT NULL,
	`token_id` integer NOT NULL,
	`request_id` text NOT NULL,
	`action` text NOT NULL,
	`entity_id` text NOT NULL,
	`at` integer NOT NULL,
	FOREIGN KEY (`company_id`) REFERENCES `companies`(`id`) ON UPDATE no action ON DELETE no action
);
--> statement-breakpoint
CREATE INDEX `audit_log_of_entity` ON `audit_log` (`company_id`,`entity_id`,`action`,`token_id`,`at`);--> statement-breakpoint
CREATE INDEX `audit_log_at` ON `audit_log` (`at`);--> statement-breakpoint
CREATE TABLE `catalog_items` (
	`company_id` integer NOT NULL,
	`id` integer NOT NULL,
	`title` text NOT NULL,
	`description` text,
	`price_cents` integer,
	`deleted` integer DEFAULT false NOT NULL,
	`search_text` text NOT NULL,
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
	PRIMARY KEY(`company_id`, `sequence`),
	FOREIGN KEY (`company_id`) REFERENCES `companies`(`id`) ON UPDATE no action ON DELETE no action
) WITHOUT ROWID;
--> statement-breakpoint
CREATE INDEX `changes_at` ON `changes` (`at`);--> statement-breakpoint
CREATE TABLE `client_blocks` (
	`company_id` integer NOT NULL,
	`block` integer NOT NULL,
	`live` integer NOT NULL,
	`version` integer NOT NULL,
	PRIMARY KEY(`company_id`, `block`),
	FOREIGN KEY (`company_id`) REFERENCES `companies`(`id`) ON UPDATE no action ON DELETE no action
) WITHOUT ROWID;
--> statement-breakpoint
CREATE TABLE `client_search_counts` (
	`company_id` integer NOT NULL,
	`search` text NOT NULL,
	`counts` text NOT NULL,
	`counted_at` integer NOT NULL,
	PRIMARY KEY(`company_id`, `search`),
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
	`name` text NOT NULL,
	`accounting_sync_enabled` integer DEFAULT false NOT NULL,
	`suspended` integer DEFAULT false NOT NULL,
	`client_count` integer DEFAULT 0 NOT NULL,
	`order_count` integer DEFAULT 0 NOT NULL,
	`last_client_id` integer DEFAULT 0 NOT NULL,
	`last_order_id` integer DEFAULT 0 NOT NULL,
	`last_invoice_id` integer DEFAULT 0 NOT NULL,
	`last_invoice_number` integer DEFAULT 1000 NOT NULL,
	`last_payment_id` integer DEFAULT 0 NOT NULL,
	`last_change` integer DEFAULT 0 NOT NULL,
	`mail_bytes` integer DEFAULT 0 NOT NULL,
	`mail_quota_bytes` integer DEFAULT 2147483648 NOT NULL,
	`mail_bytes_checked` integer DEFAULT 0 NOT NULL,
	`created_at` integer NOT NULL,
	`updated_at` integer NOT NULL,
	CONSTRAINT "companies_slot" CHECK("companies"."slot" BETWEEN 0 AND 1023)
);
--> statement-breakpoint
CREATE UNIQUE INDEX `companies_slot_unique` ON `companies` (`slot`);--> statement-breakpoint
CREATE TABLE `email_thread_segments` (
	`thread_id` text NOT NULL,
	`field` text NOT NULL,
	`position` integer NOT NULL,
	`data` text NOT NULL,
	PRIMARY KEY(`thread_id`, `field`, `position`),
	FOREIGN KEY (`thread_id`) REFERENCES `email_threads`(`id`) ON UPDATE no action ON DELETE no action
);
--> statement-breakpoint
CREATE TABLE `email_thread_uploads` (
	`company_id` integer NOT NULL,
	`id` text NOT NULL,
	`field` text NOT NULL,
	`position` integer NOT NULL,
	`data` text NOT NULL,
	`created_at` integer NOT NULL,
	PRIMARY KEY(`company_id`, `id`, `field`, `position`),
	FOREIGN KEY (`company_id`) REFERENCES `companies`(`id`) ON UPDATE no action ON DELETE no action
);
--> statement-breakpoint
CREATE INDEX `email_thread_uploads_created` ON `email_thread_uploads` (`created_at`);--> statement-breakpoint
CREATE TABLE `email_threads` (
	`id` text PRIMARY KEY NOT NULL,
	`company_id` integer NOT NULL,
	`account_email` text NOT NULL,
	`legacy_thread_id` text NOT NULL,
	`mail_thread_id` text,
	`subject` text,
	`snippet` text,
	`mail_history_id` text,
	`text_bytes` integer GENERATED ALWAYS AS (octet_length(coalesce(mail_thread_id, '')) + octet_length(coalesce(subject, '')) + octet_length(coalesce(snippet, '')) + octet_length(coalesce(mail_history_id, ''))) VIRTUAL,
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
	PRIMARY KEY(`company_id`, `token_id`, `key`, `position`),
	FOREIGN KEY (`company_id`) REFERENCES `companies`(`id`) ON UPDATE no action ON DELETE no action
);
--> statement-breakpoint
CREATE INDEX `idempotency_keys_created` ON `idempotency_keys` (`created_at`);--> statement-breakpoint
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
	`deleted` integer DEFAULT false NOT NULL,
	`search_text` text NOT NULL,
	PRIMARY KEY(`company_id`, `id`),
	FOREIGN KEY (`company_id`) REFERENCES `companies`(`id`) ON UPDATE no action ON DELETE no action,
	FOREIGN KEY (`company_id`,`invoice_id`) REFERENCES `invoices`(`company_id`,`id`) ON UPDATE no action ON DELETE no action
);
--> statement-breakpoint
CREATE INDEX `invoice_items_of_invoice` ON `invoice_items` (`company_id`,`invoice_id`,`position`,`id`);--> statement-breakpoint
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
CREATE TABLE `order_counts` (
	`company_id` integer NOT NULL,
	`client_id` integer NOT NULL,
	`status_id` integer NOT NULL,
	`created_date` text NOT NULL,
	`count` integer NOT NULL,
	PRIMARY KEY(`company_id`, `client_id`, `status_id`, `created_date`),
	FOREIGN KEY (`company_id`) REFERENCES `companies`(`id`) ON UPDATE no action ON DELETE no action
) WITHOUT ROWID;
--> statement-breakpoint
CREATE INDEX `order_counts_by_day` ON `order_counts` (`company_id`,`created_date`,`count`) WHERE "order_counts"."created_date" > '';--> statement-breakpoint
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
	PRIMARY KEY(`company_id`, `id`),
	FOREIGN KEY (`company_id`) REFERENCES `companies`(`id`) ON UPDATE no action ON DELETE no action,
	FOREIGN KEY (`company_id`,`client_id`) REFERENCES `clients`(`company_id`,`id`) ON UPDATE no action ON DELETE no action,
	FOREIGN KEY (`company_id`,`order_status_id`) REFERENCES `order_statuses`(`company_id`,`id`) ON UPDATE no action ON DELETE no action
);
--> statement-breakpoint
CREATE INDEX `orders_live` ON `orders` (`company_id`,`created_date`,`id`) WHERE "orders"."deleted" = 0;--> statement-breakpoint
CREATE INDEX `orders_of_client` ON `orders` (`company_id`,`client_id`,`created_date`,`id`) WHERE "orders"."deleted" = 0;--> statement-breakpoint
CREATE INDEX `orders_of_client_status` ON `orders` (`company_id`,`client_id`,`order_status_id`,`created_date`,`id`) WHERE "orders"."deleted" = 0;--> statement-breakpoint
CREATE INDEX `orders_of_status` ON `orders` (`company_id`,`order_status_id`,`created_date`,`id`) WHERE "orders"."deleted" = 0;--> statement-breakpoint
CREATE INDEX `orders_live_id` ON `orders` (`company_id`,`id`) WHERE "orders"."deleted" = 0;--> statement-breakpoint
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
	PRIMARY KEY(`company_id`, `thread_id`),
	FOREIGN KEY (`company_id`) REFERENCES `companies`(`id`) ON UPDATE no action ON DELETE no action,
	CONSTRAINT "thread_contexts_json" CHECK(json_valid("thread_contexts"."client_data") AND json_valid("thread_contexts"."clients_data") AND json_valid("thread_contexts"."orders_data") AND json_valid("thread_contexts"."participant_emails") AND json_valid("thread_contexts"."participants_data") AND json_type("thread_contexts"."client_data") = 'object')
);
--> statement-breakpoint
CREATE INDEX `thread_contexts_legacy` ON `thread_contexts` (`company_id`,`legacy_thread_id`,`updated_at`);--> statement-breakpoint
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
	`created_at` integer NOT NULL,
	`updated_at` integer NOT NULL,
	PRIMARY KEY(`company_id`, `id`),
	FOREIGN KEY (`company_id`) REFERENCES `companies`(`id`) ON UPDATE no action ON DELETE no action
) WITHOUT ROWID;
