-- The administration API: additive only, so that the release before works with it (expand, then contract).
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
ALTER TABLE `api_tokens` ADD `created_by` text;--> statement-breakpoint
ALTER TABLE `companies` ADD `backed_up_at` integer;--> statement-breakpoint
ALTER TABLE `companies` ADD `deliveries_paused` integer DEFAULT false NOT NULL;--> statement-breakpoint
CREATE INDEX `audit_log_company` ON `audit_log` (`company_id`,`id`);
--> statement-breakpoint
PRAGMA optimize;
