import { env } from 'cloudflare:workers'
import { inject } from 'vitest'
import { EVENT_TYPES } from '../../../src/delivery/webhooks/event-types.ts'
import { rotateSecret, type Secrets, sealSecrets } from '../../../src/delivery/webhooks/message.ts'
import type { Env } from '../../../src/env.ts'
import type { Fault } from '../../../src/simulators/kit.ts'
import { look, spoil } from '../../../src/simulators/steer.ts'
import { adminCallWith } from '../../support/admin.ts'
import {
  type ApiResponse,
  type Home,
  mintCompany,
  mintToken,
  request,
  send,
  sql,
  sqlIn,
  type TestCompany,
} from '../../support/app.ts'
import { countStarts, runAlarm, runAlarmOnce } from '../alarm.ts'

export interface Message {
  id: string
  timestamp: number
  signature: string
  bookmark: string
  contentType: string
  text: string
  // Tests look into messages freely.
  // biome-ignore lint/suspicious/noExplicitAny: see above
  body: any
}

/** An endpoint at the simulator that no other test shares. */
export class Receiver {
  readonly endpointId: string
  private readonly home: Home
  readonly secrets: Secrets
  readonly url = `${inject('receiverUrl')}/t/${crypto.randomUUID()}`

  constructor(endpointId: string, home: Home = 'DB') {
    this.endpointId = endpointId
    this.home = home
    this.secrets = rotateSecret(null, Date.now())
  }

  spoil(...faults: Fault[]): Promise<void> {
    return spoil(this.url, ...faults)
  }

  async messages(): Promise<Message[]> {
    const { calls } = await look(this.url)
    return calls
      .filter(({ path }) => path === '/hook')
      .map(({ headers, body }) => ({
        id: String(headers['webhook-id']),
        timestamp: Number(headers['webhook-timestamp']),
        signature: String(headers['webhook-signature']),
        bookmark: String(headers['x-bookmark']),
        contentType: String(headers['content-type']),
        text: body,
        body: JSON.parse(body),
      }))
  }

  /** `type id vVERSION` of every attempt, in order. */
  async lines(): Promise<string[]> {
    return (await this.messages()).map(({ body: { type, data } }) => `${type} ${data.id} v${data.version}`)
  }

  async row(): Promise<Record<string, unknown>> {
    const [row] = await sqlIn(this.home, 'SELECT * FROM webhook_endpoints WHERE id = ?', this.endpointId)
    return row ?? {}
  }

  /** Changes the endpoint's row; `?1` is its id. */
  set(fields: string, ...params: unknown[]): Promise<unknown[]> {
    return sqlIn(this.home, `UPDATE webhook_endpoints SET ${fields} WHERE id = ?1`, this.endpointId, ...params)
  }

  /** What is stored for later, by change. */
  deliveries() {
    return sqlIn<{
      entity_id: string
      sequence: number
      attempts: number
      next_attempt_at: number | null
      last_error: string
    }>(this.home, 'SELECT * FROM webhook_deliveries WHERE endpoint_id = ? ORDER BY sequence', this.endpointId)
  }
}

// Other files of the same worker have endpoints too.
let nextEndpoint = 700_000

/** A company whose changes go to endpoints, delivered when the test says so. */
export class Subscriber {
  readonly company: TestCompany
  /** Whether deliveries to one host begin at most ten times in a second: most tests would only wait for that. */
  isPaced = false

  private constructor(company: TestCompany) {
    this.company = company
  }

  static async open(options: { home?: Home } = {}): Promise<Subscriber> {
    return new Subscriber(await mintCompany(options))
  }

  /** Adds an endpoint that begins with the next change. */
  async subscribe(fields: { url?: string; event_types?: readonly string[] } = {}): Promise<Receiver> {
    const { id } = this.company
    const receiver = new Receiver(`we_${String(nextEndpoint++).padStart(18, '0')}`, this.company.home)
    const { url = `${receiver.url}/hook`, event_types = EVENT_TYPES } = fields
    await sql(
      `INSERT INTO webhook_endpoints (company_id, id, url, secret, event_types, position, created_at, updated_at)
       SELECT id, ?2, ?3, ?4, ?5, last_change, 0, 0 FROM companies WHERE id = ?1`,
      id,
      receiver.endpointId,
      url,
      await sealSecrets(env.CREDENTIALS_KEY, id, receiver.endpointId, receiver.secrets),
      JSON.stringify(event_types),
    )
    return receiver
  }

  /** A request that starts no delivery. */
  call(method: string, path: string, body?: unknown): Promise<ApiResponse> {
    return send(request(this.company.token, method, path, body), { env: countStarts('WEBHOOK_DELIVERY').bindings })
  }

  async createClient(company_name = 'Acme'): Promise<number> {
    const response = await this.call('POST', '/clients', { company_name })
    if (response.status >= 400) throw new Error(`${response.status} ${JSON.stringify(response.body)}`)
    return response.body.client.id
  }

  async createClients(count: number): Promise<void> {
    for (let each = 0; each < count; each++) await this.createClient(`c${each}`)
  }

  async rename(clientId: number, company_name: string): Promise<void> {
    await this.call('PATCH', `/clients/${clientId}`, { company_name })
  }

  /** A token whose first use sees the endpoints. */
  freshToken(): Promise<string> {
    return mintToken(this.company.id)
  }

  get object() {
    return env.WEBHOOK_DELIVERY.get(env.WEBHOOK_DELIVERY.idFromName(String(this.company.id)))
  }

  /**
   * Runs the object's alarm until it has nothing to do now; returns its next alarm.
   *
   * @param bindings those of the object, beside the real ones
   */
  deliver(bindings: Partial<Env> = {}): Promise<number | null> {
    return runAlarm(this.object, this.company.id, this.replaced(bindings))
  }

  /** Delivers once whatever waits for a retry is due. */
  async deliverLater(): Promise<number | null> {
    await this.passTime()
    return this.deliver()
  }

  async deliverClient(company_name?: string): Promise<number> {
    const id = await this.createClient(company_name)
    await this.deliver()
    return id
  }

  async deliverRename(clientId: number, company_name: string): Promise<number | null> {
    await this.rename(clientId, company_name)
    return this.deliver()
  }

  /** Runs the object's alarm once, as {@link deliver} does. */
  run(bindings: Partial<Env> = {}): Promise<number | null> {
    return runAlarmOnce(this.object, this.company.id, this.replaced(bindings))
  }

  private replaced(bindings: Partial<Env>): object {
    return { env: Object.assign({}, env, bindings), ...(!this.isPaced && { pace: { begin: () => 0 } }) }
  }

  /** Whatever waits for a retry is due. */
  async passTime(): Promise<void> {
    await sql(
      'UPDATE webhook_deliveries SET next_attempt_at = 0 WHERE company_id = ? AND next_attempt_at IS NOT NULL',
      this.company.id,
    )
  }
}

/** A subscriber with an endpoint, which has these faults. */
export async function openSubscription(...faults: Fault[]): Promise<{ subscriber: Subscriber; receiver: Receiver }> {
  const subscriber = await Subscriber.open()
  const receiver = await subscriber.subscribe()
  await receiver.spoil(...faults)
  return { subscriber, receiver }
}

/** Sends a request of an operator that starts no delivery. */
export function administer({ company }: Subscriber, method: string, path: string, body?: unknown) {
  return adminCallWith(
    countStarts('WEBHOOK_DELIVERY').bindings,
    method,
    `/companies/${company.id}/webhooks${path}`,
    body,
  )
}

export async function createEndpoint(subscriber: Subscriber) {
  const receiver = new Receiver('', subscriber.company.home)
  const { body } = await administer(subscriber, 'POST', '', { url: `${receiver.url}/hook` })
  const read = async () => (await administer(subscriber, 'GET', `/${body.id}`)).body
  return { id: String(body.id), receiver, read }
}

/** The address of a resolver that knows these hosts, or an open one that knows them from now on. */
export async function openResolver(
  addresses: Record<string, string>,
  resolver = `${inject('receiverUrl')}/t/${crypto.randomUUID()}/dns-query`,
): Promise<string> {
  const answers = Object.entries(addresses).map(([host, data]) => ({
    match: `name=${host}&type=A$`,
    times: -1,
    body: JSON.stringify({ Status: 0, Answer: [{ type: 1, data }] }),
  }))
  await spoil(resolver.replace('/dns-query', ''), ...answers)
  return resolver
}

/** The signature that the convention asks for, computed by other means than the service does. */
export async function expectedSignature(secret: string, { id, timestamp, text }: Message): Promise<string> {
  const encoder = new TextEncoder()
  const bytes = Uint8Array.from(atob(secret.replace('whsec_', '')), (char) => char.charCodeAt(0))
  const key = await crypto.subtle.importKey('raw', bytes, { name: 'HMAC', hash: 'SHA-256' }, false, ['sign'])
  const signed = await crypto.subtle.sign('HMAC', key, encoder.encode(`${id}.${timestamp}.${text}`))
  return `v1,${btoa(String.fromCharCode(...new Uint8Array(signed)))}`
}
