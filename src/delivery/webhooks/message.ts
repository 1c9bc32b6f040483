import { Buffer } from 'node:buffer'
import { createHmac, randomBytes } from 'node:crypto'
import * as z from 'zod/mini'
import { decryptCredentials, encryptCredentials } from '../../kernel/db/credentials.ts'
import { type ChangeRow, presentChange } from '../../resources/changes/present.ts'
import { eventTypeOf } from './event-types.ts'

// Messages by the Standard Webhooks convention: https://www.standardwebhooks.com

/** The body of a change's message, the same for every attempt. */
export function bodyOf(change: ChangeRow): string {
  const data = presentChange(change)
  return JSON.stringify({ type: eventTypeOf(change.type, change.operation), timestamp: data.time, data })
}

/** The `webhook-id` of a change for an endpoint: the same for every attempt and replay. */
export function messageId(endpointId: string, { sequence }: Pick<ChangeRow, 'sequence'>): string {
  return `msg_${endpointId.replace(/^we_/, '')}_${sequence}`
}

const SECRET_PREFIX = 'whsec_'
const SECRET_BYTES = 32
/** A secret also signs for this long after its replacement. */
const ROTATION_MS = 86_400_000
/** Besides the previous one. The response of a rotation may be lost: the receiver then has an earlier secret. */
const EARLIER_MAX = 2

const replaced = z.object({ secret: z.string(), until: z.number() })
const storedSecrets = z.object({
  secret: z.string(),
  previous: z.optional(replaced),
  /** Apart from `previous`, which is all that a Worker of an older version reads. */
  earlier: z.optional(z.array(replaced)),
})

export type Secrets = z.output<typeof storedSecrets>

export function sealSecrets(keys: string, companyId: number, endpointId: string, secrets: Secrets): Promise<string> {
  return encryptCredentials(keys, companyId, credentialsKind(endpointId), secrets)
}

/** The reverse of {@link sealSecrets}. @throws if the value cannot be decrypted, or has another form */
export async function openSecrets(keys: string, companyId: number, endpointId: string, sealed: string) {
  return storedSecrets.parse(await decryptCredentials(keys, companyId, credentialsKind(endpointId), sealed))
}

export function rotateSecret(present: Secrets | null, nowMs: number): Secrets {
  const secret = `${SECRET_PREFIX}${randomBytes(SECRET_BYTES).toString('base64')}`
  if (!present) return { secret }
  const earlier = replacedOf(present, nowMs).slice(0, EARLIER_MAX)
  return { secret, previous: { secret: present.secret, until: nowMs + ROTATION_MS }, earlier }
}

/** The replaced secrets that still sign, the latest first. */
function replacedOf({ previous, earlier = [] }: Secrets, nowMs: number) {
  return [...(previous ? [previous] : []), ...earlier].filter(({ until }) => until > nowMs)
}

/** Binds an endpoint's secrets to its row, as the kind of the credentials. `admin/databases/queries.ts` builds it in SQL. */
function credentialsKind(endpointId: string): string {
  return `webhook/${endpointId}`
}

export function signedHeaders(secrets: Secrets, id: string, body: string, nowMs: number): Record<string, string> {
  const timestamp = Math.floor(nowMs / 1_000)
  const signatures = [secrets, ...replacedOf(secrets, nowMs)].map(({ secret }) => {
    const key = Buffer.from(secret.slice(SECRET_PREFIX.length), 'base64')
    return `v1,${createHmac('sha256', key).update(`${id}.${timestamp}.${body}`).digest('base64')}`
  })
  return {
    'content-type': 'application/json',
    'user-agent': 'crm-integration-api-webhooks',
    'webhook-id': id,
    'webhook-timestamp': String(timestamp),
    'webhook-signature': signatures.join(' '),
  }
}

const MINUTE_MS = 60_000
const HOUR_MS = 3_600_000

/** Delays after each failed attempt, as the convention suggests: about three days in all. */
const RETRY_AFTER_MS = [5_000, 5 * MINUTE_MS, 30 * MINUTE_MS, ...[2, 5, 10, 14, 20, 24].map((hours) => hours * HOUR_MS)]
/** The maximal part of a delay that is random, to spread simultaneous failures. */
const JITTER = 0.1

/** The time of the next attempt after a number of failed ones; null after the last one. @param random from 0 to 1 */
export function nextAttemptAt(attempts: number, nowMs: number, random: number): number | null {
  const pauseMs = RETRY_AFTER_MS[attempts - 1]
  return pauseMs === undefined ? null : nowMs + Math.round(pauseMs * (1 + JITTER * random))
}
