import type { Env } from '../../env.ts'
import { isoTime } from '../../kernel/api/contract.ts'
import { firstKeyPrefix } from '../../kernel/db/credentials.ts'
import { bindingOf, DIRECTORY, databaseNames, listUnbound } from '../../kernel/db/placement.ts'
import { compareSchema, readApplied } from '../../kernel/db/refusals.ts'
import { log, nameOf, poll, withDeadline } from '../../kernel/http/isolate.ts'

const headers = { 'Cache-Control': 'no-store' }

/** Neither path needs a token or has limits. They are not published: guides/monitoring.md describes them. */
export async function readHealth(env: Env): Promise<Response> {
  const health = await findHealth(env)
  return Response.json(health, { status: health.status === 'ok' ? 200 : 503, headers })
}

export const readLiveness = async () => Response.json({ status: 'ok' }, { headers })

type Status = 'ok' | 'failed'
type Check = { status: Status; ms: number }
type Health = Awaited<ReturnType<typeof checkAll>>

/** The Durable Object classes: a test compares them with the bindings of `wrangler.toml`. */
const OBJECTS = [
  'RATE_LIMITER',
  'COMPANY_LIMITER',
  'ACCOUNTING_DELIVERY',
  'WEBHOOK_DELIVERY',
  'COMPANY_BACKUP',
] as const

const TIMEOUT_MS = 2_000
/** The result is reused this long, so that a flood of requests costs only a few checks. */
const FRESH_MS = 5_000
/** A key that is read and never written. */
const NAME = 'health'

let latest: { health: Health; at: number } | null = null
/** The start of another request's checks in this isolate. */
let beganAt: number | null = null

async function findHealth(env: Env): Promise<Health> {
  const isRunning = beganAt !== null && Date.now() < beganAt + TIMEOUT_MS
  if (isRunning) await poll(() => beganAt === null, TIMEOUT_MS).catch(() => undefined)
  if (latest && Date.now() < latest.at + FRESH_MS) return latest.health
  beganAt = Date.now()
  try {
    latest = { health: await checkAll(env), at: Date.now() }
    return latest.health
  } finally {
    beganAt = null
  }
}

async function checkAll(env: Env) {
  const failures: Record<string, string> = {}
  async function check<T>(name: string, call: () => Promise<T>): Promise<[Check, T | null]> {
    const begin = Date.now()
    try {
      const value = await withDeadline(call(), TIMEOUT_MS)
      return [{ status: 'ok', ms: Date.now() - begin }, value]
    } catch (error) {
      failures[name] = nameOf(error)
      return [{ status: 'failed', ms: Date.now() - begin }, null]
    }
  }
  async function ping(name: (typeof OBJECTS)[number]): Promise<[string, Check]> {
    // It does nothing: a response proves that the object works.
    const objects: DurableObjectNamespace<Rpc.DurableObjectBranded & { ping(): void }> = env[name]
    const [result] = await check(name, async () => objects.getByName(NAME).ping())
    return [name.toLowerCase(), result]
  }
  async function checkSchema(name: string, binding: string) {
    const [database, applied] = await check(name, async () => readApplied(bindingOf(env, binding)))
    const schema = compareSchema(applied)
    const isCurrent = schema.missing.length === 0
    if (!isCurrent && database.status === 'ok') failures[name === 'database' ? 'schema' : `${name}_schema`] = 'outdated'
    const status: Status = isCurrent ? 'ok' : 'failed'
    return { database, schema: { status, ms: database.ms, ...schema } }
  }
  const checkFurther = (names: string[]) =>
    Promise.all(names.map(async (name) => [name, (await checkSchema(name.toLowerCase(), name)).schema] as const))
  const [{ database, schema }, bound, unbound, [cache], [files], [backups], [credentials_key], ...objects] =
    await Promise.all([
      checkSchema('database', DIRECTORY),
      checkFurther(databaseNames(env).filter((name) => name !== DIRECTORY)),
      check('database', () => listUnbound(env)).then(([, names]) => checkFurther(names ?? [])),
      check('cache', () => env.CACHE.get(NAME)),
      check('files', () => env.FILES.head(NAME)),
      check('backups', () => env.BACKUPS.head(NAME)),
      check('credentials_key', () => firstKeyPrefix(env.CREDENTIALS_KEY)),
      ...OBJECTS.map(ping),
    ])
  const status: Status = Object.keys(failures).length === 0 ? 'ok' : 'failed'
  if (status === 'failed') log('health_failed', { failures }, 'error')
  return {
    status,
    checked_at: isoTime(Date.now()),
    checks: {
      database,
      schema,
      databases: Object.fromEntries([...bound, ...unbound].map(([name, each]) => [name.toLowerCase(), each])),
      cache,
      files,
      backups,
      credentials_key,
      durable_objects: Object.fromEntries(objects),
    },
  }
}
