ALTER TABLE `webhook_endpoints` ADD `initial_failures` integer;--> statement-breakpoint
PRAGMA optimize;
