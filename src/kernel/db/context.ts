import type { Database } from './client.ts'

/** Whose data a query reads or changes, and where it is. Every query function takes it first. */
export interface CompanyContext {
  companyId: number
  db: Database
  /** The database with tokens, members and what administrators did; that of the company where it is left out. */
  directory?: Database
}

/** The `Idempotency-Key` of a request. */
export interface Idempotency {
  key: string
  /** SHA-256 of method, path, query and body, hex. */
  fingerprint: string
  /** Of one result among several of the request. */
  position: number
  /** Set when the result of an earlier request was returned. */
  isReplayed: boolean
}

/** What a write of a company's data knows of its request. */
export interface WriteContext extends CompanyContext {
  requestId: string
  /** When the request arrived, in milliseconds since the epoch. */
  now: number
  token: { id: number }
  /** The request's `Idempotency-Key`; null where there is none, or the operation does not take one. */
  idempotency: Idempotency | null
  /** Starts the delivery of the company's accounting events, after the response. */
  deliverAccounting: () => void
  /** Starts the delivery to the company's webhook endpoints, if it has any, after the response. */
  announceChange: () => void
}
