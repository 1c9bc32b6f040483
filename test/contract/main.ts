import createClient from 'openapi-fetch'
import type { paths } from 'published-description'
import { callEveryOperation } from './program.ts'

/*
 * node main.ts URL TOKEN THREAD MAILBOX
 *
 * Runs the program against a served company and prints its requests and its results as JSON.
 */
const [url = '', token = '', legacyThreadId = '', accountEmail = ''] = process.argv.slice(2)
const requests: { line: string; headers: string[]; body: unknown }[] = []
const api = createClient<paths>({
  baseUrl: url,
  headers: { authorization: `Bearer ${token}` },
  fetch: async (request) => {
    const text = await request.clone().text()
    const line = `${request.method} ${request.url.slice(url.length)}`
    requests.push({ line, headers: [...request.headers.keys()], body: text === '' ? null : JSON.parse(text) })
    return fetch(request)
  },
})
const results = await callEveryOperation(api, { legacyThreadId, accountEmail })
console.log(JSON.stringify({ requests, results }))
