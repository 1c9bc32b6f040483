import autocannon from 'autocannon'
import type { Traffic } from './traffic.ts'

const CONNECTIONS = 16

/**
 * Requests a second when each of a few callers sends its next request as soon as it has a response (a closed loop). It
 * is the highest possible rate; it says nothing of latency, since slow responses delay the next requests.
 *
 * Uploads are left at the presign here: a request of this loop cannot depend on another one's response.
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
  let responses = 0
  run.on('response', () => responses++)
  const { duration, errors, timeouts, non2xx } = await run
  if (non2xx + errors + timeouts > 0) {
    throw new Error(
      `${non2xx} responses other than 2xx, ${errors} errors, ${timeouts} timeouts while looking for the rate`,
    )
  }
  return responses / duration
}
