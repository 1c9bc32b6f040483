import { randomBytes } from 'node:crypto'
import { and, asc, eq, sql } from 'drizzle-orm'
import * as z from 'zod/mini'
import { decryptCredentials, encryptCredentials } from '../auth/credentials.ts'
import { changes, companies, webhookDeliveries, webhookEndpoints } from '../db/schema.ts'
import { idText, isoTime } from '../http/contract.ts'
import { findProblem, ResolverError } from '../webhooks/address.ts'
import { credentialsKind, EVENT_TYPES, eventTypeOf, readSecrets, rotateSecret } from '../webhooks/message.ts'
import { CommandError, FLAG, formatTable, print, readCommandLine, readValue, runActions, TEXT } from './command.ts'
import { type CommandDatabase, openDatabase, PLACE, type Place, readPlace, startDeliveries } from './database.ts'
import { readCredentialsKey } from './seed-integrations.ts'

const PREFIX = 'npm run webhooks --'
const USAGE = {
  create: `${PREFIX} create --company ID --url URL [--events a,b] ${PLACE.usage}`,
  list: `${PREFIX} list [--company ID] ${PLACE.usage}`,
  update: `${PREFIX} update ID [--url URL] [--events a,b] [--enable | --disable] ${PLACE.usage}`,
  'rotate-secret': `${PREFIX} rotate-secret ID ${PLACE.usage}`,
  delete: `${PREFIX} delete ID ${PLACE.usage}`,
  replay: `${PREFIX} replay ID --from TIME --to TIME ${PLACE.usage}`,
  deliveries: `${PREFIX} deliveries ID ${PLACE.usage}`,
}
const HELP = `${Object.values(USAGE).join('\n')}

Manages the addresses to which a company's changes are delivered, signed by the Standard Webhooks convention.

'create' prints the id and the signing secret, which is shown once; delivered is what changes from then on. 'list'
shows how many changes an endpoint is behind, and why the service disabled it: a delivery failed for three days, or was
answered with 410. 'update --enable' goes on where it stopped. 'rotate-secret' prints a new secret; the previous one
also signs for 24 hours. 'replay' delivers the changes of a time span again, before new ones. 'deliveries' lists the
changes that failed, and those that wait behind them.

  --company ID   of the company, as in its seed file
  --url URL      https, of a host with public addresses only; of a local database also http on a loopback address
  --events a,b   some of those below; by default all
  --from TIME    a date (2026-01-31, UTC) or a date-time with an offset
  --to TIME      the same; a date is included

${PLACE.help}

Events:
  ${EVENT_TYPES.slice(0, 6).join(', ')},
  ${EVENT_TYPES.slice(6).join(', ')}

The delivery to a new endpoint starts within a minute where 'dev' runs on the data, within 5 minutes where the service
is deployed; from then on with each change.`

const DAY_MS = 86_400_000
const MAX_ENDPOINTS = 10
const LIST_LIMIT = 500
const ONE = { min: 1, max: 1 }
const formatTime = (ms: number | null) => (ms === null ? '-' : `${isoTime(ms).slice(0, 19)}Z`)
const toLine = (text: string) => text.replaceAll(/[\p{Cc}\s]+/gu, ' ').trim()

const ACTIONS = `${PREFIX} create | list | update ID | rotate-secret ID | delete ID | replay ID | deliveries ID`
await runActions(ACTIONS, HELP, {
  create,
  list,
  update,
  'rotate-secret': rotate,
  delete: remove,
  replay,
  deliveries: listDeliveries,
})

async function create(args: string[]): Promise<void> {
  const options = { ...PLACE.options, company: TEXT, url: TEXT, events: TEXT }
  const { values } = readCommandLine(args, USAGE.create, options)
  const { company, url: given, events } = values
  if (company === undefined) throw new CommandError(`Option '--company' is required. Usage: ${USAGE.create}`)
  if (given === undefined) throw new CommandError(`Option '--url' is required. Usage: ${USAGE.create}`)
  const companyId = readValue(idText, company, '--company')
  const event_types = readEvents(events)
  const place = readPlace(values)
  const key = readCredentialsKey(place)
  const url = await readUrl(given, place)
  await using database = await openDatabase(place)
  const { orm, write } = database
  const [row] = await orm.select({ id: companies.id }).from(companies).where(eq(companies.id, companyId))
  if (!row) throw new CommandError(`There is no company ${companyId}.`)
  const count = await orm.$count(webhookEndpoints, eq(webhookEndpoints.company_id, companyId))
  if (count >= MAX_ENDPOINTS) throw new CommandError(`Company ${companyId} has ${MAX_ENDPOINTS} endpoints already.`)

  const id = `we_${randomBytes(9).toString('hex')}`
  const now = Date.now()
  const secrets = rotateSecret(null, now)
  const secret = await encryptCredentials(key, companyId, credentialsKind(id), secrets)
  const position = sql`(SELECT last_change FROM companies WHERE id = ${companyId})`
  const endpoint = { company_id: companyId, id, url, secret, event_types, position, created_at: now, updated_at: now }
  await write([orm.insert(webhookEndpoints).values(endpoint).onConflictDoNothing()])
  print(`Id      ${id}\nSecret  ${secrets.secret}`)
}

/** Prints a table of endpoints, without their secrets. */
async function list(args: string[]): Promise<void> {
  const { values } = readCommandLine(args, USAGE.list, { ...PLACE.options, company: TEXT })
  const companyId = values.company === undefined ? undefined : readValue(idText, values.company, '--company')
  await using database = await openDatabase(readPlace(values))
  const { company_id, id } = webhookEndpoints
  const rows = await database.orm
    .select({ endpoint: webhookEndpoints, lastChange: companies.last_change })
    .from(webhookEndpoints)
    .innerJoin(companies, eq(companies.id, company_id))
    .where(companyId === undefined ? undefined : eq(company_id, companyId))
    .orderBy(asc(company_id), asc(webhookEndpoints.created_at), asc(id))
  const headings = ['ID', 'COMPANY', 'STATE', 'BEHIND', 'CREATED', 'URL', 'EVENTS', 'REASON']
  const cells = rows.map(({ endpoint, lastChange }) => [
    endpoint.id,
    endpoint.company_id,
    endpoint.enabled ? (endpoint.replay_end === null ? 'enabled' : 'replaying') : 'disabled',
    lastChange - endpoint.position,
    formatTime(endpoint.created_at),
    endpoint.url,
    endpoint.event_types.length === EVENT_TYPES.length ? 'all' : endpoint.event_types.join(),
    toLine(endpoint.disabled_reason ?? '-'),
  ])
  print(cells.length === 0 ? 'No endpoints.' : formatTable(headings, cells))
}

/** Changes an endpoint. What waits for a retry is delivered at once when it is enabled or has a new address. */
async function update(args: string[]): Promise<void> {
  const options = { ...PLACE.options, url: TEXT, events: TEXT, enable: FLAG, disable: FLAG }
  const { values, positionals } = readCommandLine(args, USAGE.update, options, ONE)
  const { url: given, events, enable = false, disable = false } = values
  if (enable && disable) throw new CommandError("Options '--enable' and '--disable' cannot be used together.")
  if (given === undefined && events === undefined && !enable && !disable) {
    throw new CommandError(`There is nothing to change. Usage: ${USAGE.update}`)
  }
  const event_types = events === undefined ? undefined : readEvents(events)
  const place = readPlace(values)
  const url = given === undefined ? undefined : await readUrl(given, place)
  await using database = await openDatabase(place)
  const { orm, write } = database
  const { company_id, id, position } = await findEndpoint(database, positionals[0])
  const now = Date.now()
  const state = enable || disable ? { enabled: enable, disabled_reason: null } : {}
  const set = { ...(url && { url }), ...(event_types && { event_types }), ...state, updated_at: now }
  const isDue = enable || url !== undefined
  const waiting = sql`${isOfEndpoint({ company_id, id })} AND next_attempt_at IS NOT NULL`
  const due = { attempts: 0, first_attempt_at: null, next_attempt_at: now }
  await write([
    orm.update(webhookEndpoints).set(set).where(isEndpoint({ company_id, id })),
    ...(isDue ? [orm.update(webhookDeliveries).set(due).where(waiting)] : []),
  ])
  const removed = enable ? await countRemoved(database, company_id, position) : 0
  const gap = removed > 0 ? ` ${removed} older changes are no longer kept: read the lists again.` : ''
  print(`Updated ${id}.${gap}${isDue ? ` What waits is delivered ${await startDeliveries(place)}` : ''}`)
}

/** Prints a new secret. */
async function rotate(args: string[]): Promise<void> {
  const { values, positionals } = readCommandLine(args, USAGE['rotate-secret'], PLACE.options, ONE)
  const place = readPlace(values)
  const key = readCredentialsKey(place)
  await using database = await openDatabase(place)
  const { company_id, id, secret: stored } = await findEndpoint(database, positionals[0])
  const now = Date.now()
  // A secret that cannot be decrypted is replaced without a transition.
  const present = await decryptCredentials(key, company_id, credentialsKind(id), stored)
    .then(readSecrets)
    .catch(() => null)
  const secrets = rotateSecret(present, now)
  const secret = await encryptCredentials(key, company_id, credentialsKind(id), secrets)
  const isRotated = database.orm.update(webhookEndpoints).set({ secret }).where(isEndpoint({ company_id, id }))
  await database.write([isRotated])
  print(`Secret  ${secrets.secret}`)
}

async function remove(args: string[]): Promise<void> {
  const { values, positionals } = readCommandLine(args, USAGE.delete, PLACE.options, ONE)
  await using database = await openDatabase(readPlace(values))
  const { orm, write } = database
  const endpoint = await findEndpoint(database, positionals[0])
  await write([
    orm.delete(webhookDeliveries).where(isOfEndpoint(endpoint)),
    orm.delete(webhookEndpoints).where(isEndpoint(endpoint)),
  ])
  print(`Deleted ${endpoint.id} (${endpoint.url}).`)
}

/** Delivers the changes of a time span again, instead of a replay that is under way. */
async function replay(args: string[]): Promise<void> {
  const options = { ...PLACE.options, from: TEXT, to: TEXT }
  const { values, positionals } = readCommandLine(args, USAGE.replay, options, ONE)
  if (values.from === undefined) throw new CommandError(`Option '--from' is required. Usage: ${USAGE.replay}`)
  if (values.to === undefined) throw new CommandError(`Option '--to' is required. Usage: ${USAGE.replay}`)
  const from = readValue(time(0), values.from, '--from')
  const to = readValue(time(DAY_MS), values.to, '--to')
  if (from >= to) throw new CommandError('--from must be before --to.')
  const place = readPlace(values)
  await using database = await openDatabase(place)
  const { orm, write } = database
  const endpoint = await findEndpoint(database, positionals[0])
  const { company_id, id, position, enabled } = endpoint
  const [span] = await orm
    .select({ first: sql<number | null>`min(sequence)`, last: sql<number | null>`max(sequence)` })
    .from(changes)
    .where(sql`company_id = ${company_id} AND at >= ${from} AND at < ${to} AND sequence <= ${position}`)
  if (span?.first == null) throw new CommandError(`No change from then is kept that ${id} was already sent.`)
  const set = { replay_position: span.first - 1, replay_end: span.last }
  await write([orm.update(webhookEndpoints).set(set).where(isEndpoint(endpoint))])
  const when = enabled ? await startDeliveries(place) : 'once the endpoint is enabled.'
  print(`The changes from ${formatTime(from)} to ${formatTime(to)} are delivered to ${id} again ${when}`)
}

/** Prints the changes that failed and those that wait behind them, at most 500. */
async function listDeliveries(args: string[]): Promise<void> {
  const { values, positionals } = readCommandLine(args, USAGE.deliveries, PLACE.options, ONE)
  await using database = await openDatabase(readPlace(values))
  const { orm } = database
  const endpoint = await findEndpoint(database, positionals[0])
  const isListed = isOfEndpoint(endpoint)
  const isChange = and(
    eq(changes.company_id, webhookDeliveries.company_id),
    eq(changes.sequence, webhookDeliveries.sequence),
  )
  const rows = await orm
    .select({ delivery: webhookDeliveries, change: changes })
    .from(webhookDeliveries)
    .leftJoin(changes, isChange)
    .where(and(eq(webhookDeliveries.company_id, endpoint.company_id), eq(webhookDeliveries.endpoint_id, endpoint.id)))
    .orderBy(asc(webhookDeliveries.sequence))
    .limit(LIST_LIMIT)
  const total = await orm.$count(webhookDeliveries, isListed)
  const cells = rows.map(({ delivery, change }) => {
    const { sequence, entity_id, attempts, next_attempt_at, last_error } = delivery
    const next = next_attempt_at === null ? 'waits' : formatTime(next_attempt_at)
    return [sequence, change ? eventTypeOf(change) : '-', entity_id, attempts, next, toLine(last_error ?? '-')]
  })
  const headings = ['CHANGE', 'EVENT', 'OBJECT', 'FAILED', 'NEXT TRY', 'LAST ERROR']
  print(cells.length === 0 ? 'No deliveries wait.' : formatTable(headings, cells))
  if (total > rows.length) print(`… and ${total - rows.length} more.`)
}

type EndpointKey = Pick<typeof webhookEndpoints.$inferSelect, 'company_id' | 'id'>

function isEndpoint({ company_id, id }: EndpointKey) {
  return sql`company_id = ${company_id} AND id = ${id}`
}

function isOfEndpoint({ company_id, id }: EndpointKey) {
  return sql`company_id = ${company_id} AND endpoint_id = ${id}`
}

async function findEndpoint({ orm }: CommandDatabase, id = '') {
  const [endpoint] = await orm.select().from(webhookEndpoints).where(eq(webhookEndpoints.id, id))
  if (!endpoint) throw new CommandError(`There is no endpoint '${id}'.`)
  return endpoint
}

/** How many changes after a position the feed no longer holds. */
async function countRemoved({ orm }: CommandDatabase, companyId: number, position: number): Promise<number> {
  const isNext = sql`company_id = ${companyId} AND sequence > ${position}`
  const [row] = await orm.select({ first: sql<number | null>`min(sequence)` }).from(changes).where(isNext)
  return row?.first == null ? 0 : row.first - position - 1
}

function readEvents(text = EVENT_TYPES.join()): string[] {
  const names = text.split(',').map((part) => part.trim())
  const unknown = names.find((name) => !EVENT_TYPES.some((type) => type === name))
  if (unknown === undefined) return EVENT_TYPES.filter((type) => names.includes(type))
  throw new CommandError(`--events: '${unknown}' is none of ${EVENT_TYPES.join(', ')}.`)
}

/** The address as it is called, after the checks of a delivery. */
async function readUrl(text: string, place: Place): Promise<string> {
  try {
    const policy = { resolver: process.env.WEBHOOK_RESOLVER, allowsLoopback: place !== 'remote' }
    const problem = await findProblem(text, policy)
    if (problem !== null) throw new CommandError(`--url ${problem}.`)
    return new URL(text).href
  } catch (error) {
    if (!(error instanceof ResolverError)) throw error
    throw new CommandError(`--url cannot be checked. ${error.message}`)
  }
}

/** A date-time, or a date: its beginning in UTC and `dateMs` later. */
function time(dateMs: number) {
  const start = (date: string) => Date.parse(date) + dateMs
  return z.union(
    [z.pipe(z.iso.date(), z.transform(start)), z.pipe(z.iso.datetime({ offset: true }), z.transform(Date.parse))],
    'must be a date (2026-01-31) or a date-time with an offset',
  )
}
