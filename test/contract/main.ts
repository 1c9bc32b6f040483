import createClient from 'openapi-fetch'
import type { paths } from 'published-description'
import { callEveryOperation } from './program.ts'

/*
 * node main.ts URL TOKEN THREAD MAILBOX
 *
 * Runs the program against a served company and prints its requests and its results as JSON.
 */
const [url = '', token = '', legacyThreadId = '', accountEmail = ''] = process.argv.slice(2)
const requests: string[] = []
const api = createClient<paths>({
  baseUrl: url,
  headers: { authorization: `Bearer ${token}` },
  fetch: (request) => {
    requests.push(`${request.method} ${request.url.slice(url.length)}`)
    return fetch(request)
  },
})
const results = await callEveryOperation(api, { legacyThreadId, accountEmail })
console.log(JSON.stringify({ requests, results }))
