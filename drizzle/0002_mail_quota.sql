-- Written by hand. Triggers that count a company's stored bytes of email threads: segments, and texts in the row.
CREATE TRIGGER email_thread_segments_insert AFTER INSERT ON email_thread_segments BEGIN
  UPDATE companies SET mail_bytes = mail_bytes + octet_length(new.data)
    WHERE id = (SELECT company_id FROM email_threads WHERE id = new.thread_id);
END;
--> statement-breakpoint
CREATE TRIGGER email_thread_segments_update AFTER UPDATE OF data ON email_thread_segments BEGIN
  UPDATE companies SET mail_bytes = mail_bytes + octet_length(new.data) - octet_length(old.data)
    WHERE id = (SELECT company_id FROM email_threads WHERE id = new.thread_id);
END;
--> statement-breakpoint
CREATE TRIGGER email_thread_segments_delete AFTER DELETE ON email_thread_segments BEGIN
  UPDATE companies SET mail_bytes = mail_bytes - octet_length(old.data)
    WHERE id = (SELECT company_id FROM email_threads WHERE id = old.thread_id);
END;
--> statement-breakpoint
CREATE TRIGGER email_threads_insert AFTER INSERT ON email_threads BEGIN
  UPDATE companies SET mail_bytes = mail_bytes + new.text_bytes WHERE id = new.company_id AND new.text_bytes > 0;
END;
--> statement-breakpoint
CREATE TRIGGER email_threads_update AFTER UPDATE OF mail_thread_id, subject, snippet, mail_history_id ON email_threads
WHEN new.text_bytes <> old.text_bytes BEGIN
  UPDATE companies SET mail_bytes = mail_bytes + new.text_bytes - old.text_bytes WHERE id = new.company_id;
END;
--> statement-breakpoint
CREATE TRIGGER email_threads_delete AFTER DELETE ON email_threads BEGIN
  UPDATE companies SET mail_bytes = mail_bytes - old.text_bytes WHERE id = old.company_id AND old.text_bytes > 0;
END;
--> statement-breakpoint
-- A write of email threads ends with this check, which undoes its whole batch.
CREATE TRIGGER companies_mail_quota BEFORE UPDATE OF mail_bytes_checked ON companies
WHEN new.mail_bytes > new.mail_quota_bytes AND new.mail_bytes > old.mail_bytes_checked BEGIN
  SELECT RAISE(ABORT, 'mail quota exceeded');
END;
