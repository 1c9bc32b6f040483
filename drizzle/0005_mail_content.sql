-- Contents of threads in R2: additive only, so that the release before works with it. What it writes meanwhile has another
-- hash than the object of its thread, which then counts as none.
CREATE TABLE `email_thread_objects` (
	`id` text PRIMARY KEY NOT NULL,
	`company_id` integer NOT NULL,
	`content_hash` text NOT NULL,
	`bytes` integer NOT NULL,
	`segments` text NOT NULL,
	`state` text DEFAULT 'writing' NOT NULL,
	`thread_id` text,
	`remove_at` integer,
	FOREIGN KEY (`company_id`) REFERENCES `companies`(`id`) ON UPDATE no action ON DELETE no action,
	FOREIGN KEY (`thread_id`) REFERENCES `email_threads`(`id`) ON UPDATE no action ON DELETE no action
);
--> statement-breakpoint
CREATE UNIQUE INDEX `email_thread_objects_thread` ON `email_thread_objects` (`thread_id`) WHERE thread_id IS NOT NULL;--> statement-breakpoint
CREATE INDEX `email_thread_objects_removal` ON `email_thread_objects` (`remove_at`) WHERE remove_at IS NOT NULL;--> statement-breakpoint
CREATE INDEX `email_thread_objects_writing` ON `email_thread_objects` (`company_id`) WHERE state = 'writing';--> statement-breakpoint
ALTER TABLE `email_threads` ADD `content_used_at` integer DEFAULT 0 NOT NULL;--> statement-breakpoint
CREATE INDEX `email_threads_unused` ON `email_threads` (`content_used_at`);
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
PRAGMA optimize;
