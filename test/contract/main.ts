import createClient from 'openapi-fetch'
import type { paths } from 'published-description'
import { callEveryOperation } from './program.ts'

/*
 * node main.ts URL TOKEN THREAD MAILBOX
 *
 * Runs the program against a served company and prints what it asked for and what it was told, as JSON.
 */
const [url = '', token = '', legacyThreadId = '', accountEmail = ''] = process.argv.slice(2)
const asked: string[] = []
const api = createClient<paths>({
  baseUrl: url,
  headers: { authorization: `Bearer ${token}` },
  fetch: (request) => {
    asked.push(`${request.method} ${request.url.slice(url.length)}`)
    return fetch(request)
  },
})
const told = await callEveryOperation(api, { legacyThreadId, accountEmail })
console.log(JSON.stringify({ asked, told }))
