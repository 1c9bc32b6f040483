import type { Env } from '../../env.ts'
import type { Role } from '../../kernel/api/contract.ts'
import type { Database } from '../../kernel/db/client.ts'
import type { CompanyContext } from '../../kernel/db/context.ts'

/** Who sends a request to the administration API. */
export interface Caller {
  /** A person's email in lower case, or `operator` for the deployment's secret. */
  actor: string
  isOperator: boolean
  /** A person's roles by company. */
  memberships: ReadonlyMap<number, Membership>
}

export type Membership = Extract<Role, 'developer' | 'owner'>

/** The company in a path of the administration API. */
export interface AdminCompany {
  id: number
  /** The binding of the database that has its data. */
  database: string
  name: string
  suspended: boolean
}

/** What a handler of the administration API knows of its request. */
export interface AdminContext extends CompanyContext {
  requestId: string
  /** When the request arrived, in milliseconds since the epoch. */
  now: number
  caller: Caller
  /** Of tokens, members, and companies with their placement. */
  directory: Database
  /** The binding of the database that `db` is. */
  database: string
  /** Of the path; null where it names none, and `companyId` is 0, or where the company is yet to be created. */
  company: AdminCompany | null
  /** The caller's IP address. */
  address: string
  /** The request's address. */
  url: string
  /** Administration reaches every binding. */
  env: Env
  /** Work that continues after the response. */
  waitUntil: (work: Promise<unknown>) => void
}

declare module 'hono' {
  interface ContextVariableMap {
    admin: AdminContext
  }
}
