import { sql } from 'drizzle-orm'
import type { Input } from '../../../kernel/api/contract.ts'
import { adminEntry } from '../../../kernel/db/audit.ts'
import { orm, type Statements, statement } from '../../../kernel/db/client.ts'
import { DIRECTORY, IS_OWN } from '../../../kernel/db/placement.ts'
import { imports } from '../../../kernel/db/schema.ts'
import { hasContent } from '../../copies/restore.ts'
import type { AdminContext } from '../context.ts'
import type { createImport } from './contract.ts'

/** An import can be resumed for this long after its last part. */
const IMPORT_TTL_MS = 30 * 86_400_000

export async function hasCompany({ companyId, database, db }: AdminContext): Promise<boolean> {
  if (database === DIRECTORY) return true
  const [rows] = await db.read([statement(`SELECT 1 FROM companies WHERE id = ? AND ${IS_OWN}`, companyId)])
  return rows.length > 0
}

/** Finds the progress of an import; undefined if none of its parts is loaded. */
export async function findImport({ companyId, db }: AdminContext, hash: string) {
  const isOf = sql`company_id = ${companyId} AND hash = ${hash}`
  const [[row]] = await db.read([orm.select().from(imports).where(isOf)])
  return row
}

/** Loads a part and records it. With `into_empty`, fails for a company with data, unless a part of the import is loaded. */
export async function loadPart(
  context: AdminContext,
  { hash, part, parts, into_empty }: Input<typeof createImport>['body'],
  statements: Statements,
  hasRows: boolean,
) {
  const { companyId, db, now } = context
  const isBegun = sql`EXISTS (SELECT 1 FROM imports WHERE company_id = ${companyId} AND hash = ${hash})`
  const isRefused = sql`${into_empty} AND ${hasContent(context)} AND NOT ${isBegun}`
  await db.writeIdempotent([
    statement(sql`SELECT json_extract('{}', 'company has data') WHERE ${isRefused}`),
    ...statements,
    // The directory's row of a company that was created in another database since the request began.
    statement(sql`SELECT json_extract('{}', 'created elsewhere') FROM companies
      WHERE id = ${companyId} AND NOT ${sql.raw(IS_OWN)}`),
    // A repeated part takes nothing back, but the first one starts the import again.
    statement(sql`INSERT INTO imports (company_id, hash, parts, next_part, updated_at)
      VALUES (${companyId}, ${hash}, ${parts}, ${part + 1}, ${now})
      ON CONFLICT (company_id, hash) DO UPDATE SET parts = excluded.parts, updated_at = excluded.updated_at,
        next_part = iif(excluded.next_part = 2, 2, max(next_part, excluded.next_part))`),
    // This part may replace rows of another interrupted import, which begins again.
    statement(sql`UPDATE imports SET next_part = 1
      WHERE company_id = ${companyId} AND hash <> ${hash} AND next_part <= parts AND ${hasRows}`),
    statement(sql`DELETE FROM imports WHERE company_id = ${companyId} AND updated_at < ${now - IMPORT_TTL_MS}`),
    adminEntry(context, 'companies.import', `${hash} ${part}/${parts}`),
  ])
}
