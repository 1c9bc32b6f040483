import autocannon from 'autocannon'
import type { Traffic } from './traffic.ts'

const CONNECTIONS = 16

/**
 * What the service answers in a second when each of a few callers sends its next request as soon as the last one is
 * answered (a closed loop): more than this it never does, and how long an answer takes cannot be told from it, since
 * slow answers keep requests from being sent.
 *
 * Uploads are left at the presign here: a request of this loop cannot wait for another one's answer.
 */
export async function measureCapacity(url: string, traffic: Traffic, seconds: number): Promise<number> {
  const run = autocannon({
    url,
    connections: CONNECTIONS,
    duration: seconds,
    requests: [
      {
        setupRequest: (request) => {
          const { method, path, headers, body } = traffic.next()
          return { ...request, method, path, headers, body: body?.toString() ?? '' }
        },
      },
    ],
  })
  let answers = 0
  run.on('response', () => answers++)
  const { duration, errors, timeouts, non2xx } = await run
  if (non2xx + errors + timeouts > 0) {
    throw new Error(
      `${non2xx} answers other than 2xx, ${errors} errors, ${timeouts} timeouts while looking for the rate`,
    )
  }
  return answers / duration
}
