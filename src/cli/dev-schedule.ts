/** More often than deployed, for short waits in development. */
const INTERVAL_MS = 60_000

/** Runs the scheduled handler of a local Worker now and every minute, since `wrangler dev` fires no cron trigger. */
export function startSchedule(url: string): void {
  const run = () => {
    fetch(`${url}/cdn-cgi/local/scheduled`)
      .then((response) => response.body?.cancel())
      // The Worker is restarting: the next run follows.
      .catch(() => undefined)
  }
  run()
  setInterval(run, INTERVAL_MS).unref()
}
