import type { Database } from './client.ts'

/** Names the company of a query and its database. Every query function takes it first. */
export interface CompanyContext {
  companyId: number
  db: Database
  /** The database of tokens, members and the administrators' log; omitted, it is the company's own. */
  directory?: Database
}

export interface Idempotency {
  key: string
  /** SHA-256 of method, path, query and body, hex. */
  fingerprint: string
  /** Numbers the results of one request, from 0. */
  position: number
  isReplayed: boolean
}

export interface WriteContext extends CompanyContext {
  requestId: string
  /** When the request arrived with its body, in milliseconds since the epoch. */
  now: number
  token: { id: number }
  /** The request's `Idempotency-Key`; null where there is none, or the operation does not take one. */
  idempotency: Idempotency | null
  deliverAccounting: () => void
  /** Starts the delivery to the company's webhook endpoints, if it has any, after the response. */
  announceChange: () => void
}
