import { at } from './differences.ts'

/** Fields of a client as the API takes them. */
export interface ClientFields {
  company_name?: string
  first_name?: string | null
  email?: string
  phone?: string
  external_id?: string | null
  deleted?: boolean
}

/** Fields of an order as the API takes them. */
export interface OrderFields {
  title?: string
  client_id?: number
  description?: string
  client_notes?: string
  deadline?: string
  status_id?: number
  external_id?: string | null
}

export interface ThreadName {
  accountEmail: string
  legacyThreadId: string
}

/** One change, named as the audit names it; an update that deletes a client is audited as its deletion. */
export type Action =
  | { kind: 'client.create'; fields: ClientFields & { company_name: string } }
  | { kind: 'client.update'; id: number; fields: ClientFields }
  | { kind: 'order.create'; fields: OrderFields & { title: string; client_id: number } }
  | { kind: 'order.update'; id: number; fields: OrderFields }
  | { kind: 'order.delete'; id: number }
  | { kind: 'email_thread.write'; thread: ThreadName; bytes: number }

/**
 * A write that was sent, and what came of it: `acknowledged` with its response; `refused` because the order was deleted
 * before; `unknown` when the service was killed before the response was there.
 */
export interface Write {
  requestId: string
  action: Action
  outcome: 'acknowledged' | 'refused' | 'unknown'
  response: unknown
}

const SHOWN_AS = { client: 'client', order: 'project', email_thread: 'email_thread' } as const

/** The id of what a write has made or changed, by its response. */
export function idIn({ action, response }: Write): unknown {
  const [noun] = action.kind.split('.') as [keyof typeof SHOWN_AS]
  return at(response, SHOWN_AS[noun], 'id')
}

export function nameOf({ accountEmail, legacyThreadId }: ThreadName): string {
  return `${accountEmail} ${legacyThreadId}`
}
