import { Webhook } from 'standardwebhooks'
import { isRecord } from './errors.ts'
import type { components } from './schema.d.ts'

type EventBody = components['schemas']['Event']

/** A delivery is not from the API, was altered, or is over five minutes old: respond with a 4xx and do nothing. */
export class WebhookVerificationError extends Error {
  override readonly name = 'WebhookVerificationError'
}

/** One change, as `GET /changes` lists it. Deliveries repeat: the `id` is that of the event, the same in each attempt. */
export interface WebhookEvent extends EventBody {
  /** From the header `webhook-id`. */
  id: string
  /** From the header `x-bookmark`, for `follow` of a client that reads what the event names. */
  bookmark: string | null
}

/**
 * Verifies a delivery by the Standard Webhooks convention, and returns its event. Throws
 * {@link WebhookVerificationError}, and an `Error` for a secret that is none.
 *
 * @param body as it was received, before any parsing
 * @param secrets `whsec_…`; several while a secret is replaced by another
 */
export function verifyWebhook(
  body: string | Uint8Array,
  headers: Headers | Record<string, string | string[] | undefined>,
  ...secrets: string[]
): WebhookEvent {
  const text =
    typeof body === 'string' ? body : new TextDecoder('utf-8', { fatal: false, ignoreBOM: true }).decode(body)
  const entries = Symbol.iterator in headers ? [...headers] : Object.entries(headers)
  const sent = entries.filter(([, value]) => value !== undefined)
  const received = Object.fromEntries(sent.map(([name, value]) => [name.toLowerCase(), String(value)]))
  const webhooks = secrets.map((secret) => new Webhook(secret))
  let failure: unknown
  for (const webhook of webhooks) {
    try {
      const event = webhook.verify(text, received)
      if (isEvent(event))
        return { ...event, id: received['webhook-id'] ?? '', bookmark: received['x-bookmark'] ?? null }
      throw new Error('The signed body is not an event')
    } catch (error) {
      failure ??= error
    }
  }
  const message = failure instanceof Error ? failure.message : 'No secret was given'
  throw new WebhookVerificationError(message, { cause: failure })
}

function isEvent(value: unknown): value is EventBody {
  return isRecord(value) && typeof value.type === 'string' && isRecord(value.data)
}
