import { DATABASE_LIMIT_MS, LIMIT } from '../rate-limit/window.ts'

/** The groups of operations, in the order in which they are shown. A contract's `tag` is one of these names. */
export const tags: Record<string, string> = {
  Clients: 'The customers of the company: list and search, create, read, update, soft-delete and restore.',
  Orders:
    'Orders, also called projects. An order has a project, a default invoice with its items and payments, a tax, an order status and artworks.',
  Products: 'Product search over the company item catalog, two suppliers and stored invoice lines.',
  Mail: 'Mail threads: what the CRM knows about a thread, and the full content of threads that a tool synchronizes.',
  Files: `The stored files of an order. To store an attachment of a mail thread: ask for an upload address; \`PUT\` the bytes to its \`uploadUrl\` with the \`contentType\` of the answer and without the token (200 when stored; refusals are the storage's own, in XML); then store the thread again with the answer's \`key\` as the \`storage_key\` of that attachment. Names within a thread must differ, or the later file replaces the earlier. What is stored can be listed here; to read the bytes, use the storage.`,
}

/** The introduction of the published description, in Markdown. */
export const introduction = `A JSON API over HTTPS to the CRM of a custom-apparel shop: clients, orders, products, mail threads and order files.

## Authentication

Every request carries \`Authorization: Bearer <API_TOKEN>\`. A token is 64 hexadecimal characters; a user makes it in the developer settings, where it is shown once. It belongs to one company, has a set of permissions and may expire. A revoked token stops working within 30 seconds.

No token or a wrong one: 401 \`unauthenticated\`. A token without the permission that an operation names, or a suspended company: 403 \`forbidden\`.

## One token, one company

Everything that a request reads or writes belongs to the company of its token. A body never carries \`company_id\`. What belongs to another company answers 404, exactly as what does not exist.

## Requests

Bodies are JSON objects, sent with \`Content-Type: application/json\`, up to 1 MiB unless the operation says otherwise. Paths start with \`/api/v1\`. \`HEAD\` works wherever \`GET\` does, and a slash at the end of a path does not matter. Any web page or browser extension may call the API: cross-origin requests are allowed, without cookies.

- **Ids** are positive integers up to 9007199254740991. Another value is a 400 in a query or a body, and a 404 in a path.
- **Dates** are \`YYYY-MM-DD\`. Date-times are ISO 8601 with an offset; answers give them in UTC, with milliseconds and \`Z\`.
- **Money**: amounts are numbers in the currency of the company with at most 2 decimals. Totals are computed in whole cents and rounded half up, once for each invoice line, the discount and the tax.
- **Changes**: an update changes the fields that are sent and no others; \`null\` clears a field that may be empty.

## Lists

Lists take \`page\`, from 1, and \`per_page\`, 25 unless given and at most 100. They answer \`data\` and \`pagination\`, whose \`total\` counts the elements of all pages. The newest come first, and a page after the last is empty.

## Errors

Every error has the form \`{"error": {"code", "message", "details"}}\`. The codes:

| Code | Status | Meaning |
|---|---|---|
| \`unauthenticated\` | 401 | no valid token |
| \`forbidden\` | 403 | not permitted |
| \`invalid_request\` | 400, 405, 409, 413, 415 | the request cannot be carried out as it is |
| \`not_found\` | 404 | absent, or not of this company |
| \`rate_limited\` | 429 | too many requests, or too much database time |
| \`internal_error\` | 500, 502, 503 | the server failed, a supplier did, or the server is too busy (\`Retry-After\`) |

\`details\` is \`null\` or an object. A 400 lists every problem in \`details.issues\` at once, and where there are more than 100 the first ones and their number in \`details.issue_count\`; a 409 and a 502 tell their cause in \`details.reason\`. A path that exists but not with this method answers 405, with the methods it knows in \`Allow\`; an unknown path answers 404.

## Rate limit

A token may send ${LIMIT} requests a minute and use ${DATABASE_LIMIT_MS / 1000} seconds of database time a minute, counted for the whole world together. An ordinary request takes a few milliseconds of it; what is used beyond the allowance is taken from the next minute. Every response to a valid token tells both limits in \`RateLimit-Policy\` and what is left of them in \`RateLimit\`. Over a limit, or with too many requests in flight that need much database time: 429 \`rate_limited\`, with the seconds to wait in \`Retry-After\`.

## When to try again

- **429**: after \`Retry-After\` seconds.
- **503**: after \`Retry-After\` seconds, whatever the method: nothing was changed.
- **500, 502, or no answer**: GET, PUT, PATCH and DELETE may be sent again, after waits that grow and vary a little. A second DELETE answers 404. POST creates anew each time: first look whether the first one was carried out.
- **Any other error** stays the same until the request, the token or the settings of the company change.

Every response has an \`X-Request-Id\`: yours, if you sent one of 1 to 128 letters, digits, dots, underscores and hyphens. Tell it when you ask for help.

## Fresh and fast reads

Answers carry an \`X-Bookmark\`. Send the last one with the next request, and a copy of the database near you answers, at least as fresh as what you have seen. Without it the main copy answers: always up to date, though it may be further away.
`
