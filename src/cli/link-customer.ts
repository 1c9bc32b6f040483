import { asc, eq, sql } from 'drizzle-orm'
import { cleanLine } from '../accounting/invoice-payload.ts'
import { clients, companies } from '../db/schema.ts'
import { retryOrdersOf } from './accounting-notices.ts'
import { CommandError } from './command.ts'
import type { CommandDatabase } from './database.ts'
import { accountingId } from './seed-integrations.ts'

/** @throws CommandError for what cannot be a customer's id */
export function readCustomerId(text: string): string {
  const id = accountingId.safeParse(text)
  if (!id.success) throw new CommandError(`CUSTOMER_ID ${id.error.issues[0]?.message}, not '${text}'.`)
  return id.data
}

/** The company that is meant: the given one, else the only one. @throws CommandError when there is none such */
async function findCompany({ orm }: CommandDatabase, companyId: number | null): Promise<number> {
  const rows = await orm.select({ id: companies.id }).from(companies).orderBy(asc(companies.id)).limit(2)
  if (companyId === null) {
    const [only, another] = rows
    if (!only) throw new CommandError('There is no company.')
    if (another) throw new CommandError('There are several companies: say which one with --company ID.')
    return only.id
  }
  const [row] = await orm.select({ id: companies.id }).from(companies).where(eq(companies.id, companyId))
  if (!row) throw new CommandError(`There is no company ${companyId}.`)
  return row.id
}

/**
 * Books a client's invoices on a customer that somebody chose, and has the client's undelivered events sent again.
 *
 * @returns what was linked, and how many events are sent again
 * @throws CommandError when there is no such company or client
 */
export async function linkCustomer(
  database: CommandDatabase,
  { clientId, customerId, companyId: given }: { clientId: number; customerId: string; companyId: number | null },
  now: number,
): Promise<{ text: string; count: number }> {
  const companyId = await findCompany(database, given)
  const isClient = sql`company_id = ${companyId} AND id = ${clientId}`
  const [client] = await database.orm.select({ name: clients.company_name }).from(clients).where(isClient)
  if (!client) throw new CommandError(`Company ${companyId} has no client ${clientId}.`)
  await database.write([
    database.orm
      .update(clients)
      .set({ accounting_customer_id: customerId, accounting_customer_linked: true })
      .where(isClient),
  ])
  const count = await retryOrdersOf(database, companyId, clientId, now)
  const name = cleanLine(client.name)
  return { text: `Client ${clientId} (${name}) of company ${companyId} is linked to customer ${customerId}.`, count }
}
