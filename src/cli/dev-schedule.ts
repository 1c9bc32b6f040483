/** Locally nobody pulls the cron trigger; and more often, so that nobody waits. */
const EVERY_MS = 60_000

/** Runs the cron trigger of a local Worker now, and every minute as long as this process lives. */
export function startSchedule(url: string): void {
  const run = () => {
    fetch(`${url}/cdn-cgi/local/scheduled`)
      .then((response) => response.body?.cancel())
      // The Worker is just being started anew: the next one will do.
      .catch(() => undefined)
  }
  run()
  setInterval(run, EVERY_MS).unref()
}
