import { type ApiResponse, sql, type TestCompany } from '../../support/app.ts'

export interface Sent {
  method: string
  path: string
  body?: unknown
  if_match?: string
}

let next = 0

export const fresh = () => `batch-${next++}`

export const create = (external_id?: string): Sent => ({
  method: 'POST',
  path: '/clients',
  body: { company_name: 'Created', ...(external_id && { external_id }) },
})
export const creates = (count: number) => Array.from({ length: count }, () => create())

export const newOrder = (body: object): Sent => ({ method: 'POST', path: '/orders', body })

export const rename = (id: number, company_name: string, if_match?: string): Sent => ({
  method: 'PATCH',
  path: `/clients/${id}`,
  body: { company_name },
  ...(if_match && { if_match }),
})

type Results = Pick<ApiResponse, 'body'>

export const statusesOf = ({ body }: Results): number[] => body.results.map(({ status }: ApiResponse) => status)

/** Status and transaction of each result. */
export const shapeOf = ({ body }: Results): [status: number, transaction: number | null][] =>
  body.results.map((each: { status: number; transaction: number | null }) => [each.status, each.transaction])

/** Sends batches of a company, or of another one, and counts its rows. */
export const batchesOf = (company: TestCompany) => ({
  run: (operations: unknown, headers?: Record<string, string>, of = company) =>
    of.call('POST', '/batch', { operations }, headers),
  count: async (table: string) => (await sql(`SELECT 1 FROM ${table} WHERE company_id = ?`, company.id)).length,
})
