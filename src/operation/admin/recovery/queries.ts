import { sql } from 'drizzle-orm'
import { adminEntry } from '../../../kernel/db/audit.ts'
import { orm } from '../../../kernel/db/client.ts'
import { isHere, openEach } from '../../../kernel/db/placement.ts'
import { companies } from '../../../kernel/db/schema.ts'
import type { AdminContext } from '../context.ts'

export async function recordRestore(context: AdminContext, backup: string): Promise<void> {
  const exists = sql`EXISTS (SELECT 1 FROM companies WHERE id = ${context.companyId})`
  await context.db.writeIdempotent([adminEntry(context, 'company.restored', backup, exists)])
}

export async function findNextCompany({ directory: db }: AdminContext, after: number): Promise<number | null> {
  const [[row]] = await db.read([
    orm.select({ id: companies.id }).from(companies).where(sql`id > ${after}`).orderBy(companies.id).limit(1),
  ])
  return row?.id ?? null
}

/** Begins a recovery: pauses the deliveries of every company. @returns how many were not paused before */
export async function beginRecovery(context: AdminContext, run: string): Promise<number> {
  await context.directory.writeIdempotent([adminEntry(context, 'deployment.recover', run)])
  let paused = 0
  for (const { db } of openEach(context.env)) {
    // A second run finds those of the first by their time.
    const isMeant = sql`(deliveries_paused = 0 OR updated_at = ${context.now}) AND ${isHere}`
    const pause = orm.update(companies).set({ deliveries_paused: true, updated_at: context.now }).where(isMeant)
    const [rows] = await db.writeIdempotent([pause.returning({ id: companies.id })])
    paused += rows.length
  }
  return paused
}
