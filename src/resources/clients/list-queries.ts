import { eq, type SQL, sql } from 'drizzle-orm'
import type { RequestContext } from '../../kernel/api/context.ts'
import { mapRows, OWN_SLOT, orm, type Placeholders, prepare } from '../../kernel/db/client.ts'
import { clientColumns, storedRow } from '../../kernel/db/columns.ts'
import {
  DELETED,
  type Flag,
  type FoundPage,
  type List,
  type ListValues,
  type PageStart,
  pageRows,
  perVariant,
  readPage,
  sortOf,
  totalOf,
} from '../../kernel/db/lists.ts'
import { companies } from '../../kernel/db/schema.ts'
import { clientSearch, fold, idOf, inSlot, rowidOf } from '../../kernel/db/search.ts'
import type { ClientList } from './contract.ts'
import type { ClientRow } from './queries.ts'

export async function listClients(
  context: RequestContext,
  query: ClientList,
  start: PageStart,
): Promise<FoundPage<ClientRow>> {
  const { page: _page, per_page: _perPage, cursor: _cursor, ...listed } = query
  const { sort, deleted, q = '', updated_since, external_id, ...unused } = listed
  unused satisfies Record<string, never>
  const { db, companyId } = context
  const text = fold(q).trim()
  const search = text === '' ? {} : { slot: OWN_SLOT, ...clientSearch(text) }
  const values = { companyId, updated_since, external_id, ...search }
  const { page, whole } = statements({ sort, deleted })
  const found = await readPage(
    db,
    sortOf(sort),
    start,
    (start) => mapRows(page({ ...values, ...start }), (rows: Parameters<typeof readRow>[0][]) => rows.map(readRow)),
    () => whole({ ...values, limit: 0 }),
  )
  return { ...found, rows: found.rows.map(({ row }) => row) }
}

type Variant = Pick<ClientList, 'sort' | 'deleted'>
type Values = ListValues & Placeholders<never, 'updated_since' | 'external_id' | 'slot' | 'match' | 'folded' | 'digits'>

const CLIENT = storedRow(clientColumns)

const readRow = ({ sort_value, ...client }: { sort_value: string | number }) => {
  return { row: CLIENT.decode(client), sortValue: sort_value }
}

const statements = perVariant((variant: Variant) => ({
  page: prepare((p: Values) => {
    const { from, order } = pageRows(listOf(variant, p))
    const selected = { ...CLIENT.selected, sort_value: sql`page.sort_value`.as('sort_value') }
    return orm.select(selected).from(from).orderBy(order)
  }),
  whole: prepare((p: Values) => {
    const total = totalOf(listOf(variant, p), sql`companies.client_count`).as('total')
    return orm.select({ total, sequence: companies.last_change }).from(companies).where(eq(companies.id, p.companyId))
  }),
}))

function listOf({ sort, deleted }: Variant, p: Values): List {
  const order = sortOf(sort)
  const hasChangedSince = p.updated_since && sql`clients.updated_at >= ${p.updated_since}`
  const hasExternalId = p.external_id && sql`clients.external_id = ${p.external_id}`
  const index = (flag: Flag, column: string) =>
    `clients_${flag ? 'deleted' : 'live'}${column === 'id' ? '' : `_${column.replace('_at', '')}`}`
  // The full-text table has only clients that are not deleted.
  const search = p.match && {
    hits: hitsOf(p, order.direction, order.column === 'id'),
    condition: hasText(p),
    isExact: true,
  }
  return {
    table: 'clients',
    sort: order,
    flags: DELETED[deleted],
    filters: [hasChangedSince, hasExternalId],
    search,
    index: (flag) => index(flag, order.column),
    idIndex: 'clients_live',
    source: (flag) => {
      if (hasExternalId) return { index: 'clients_external_id', condition: hasExternalId }
      if (search && flag === 0) return search
      if (!hasChangedSince || order.column === 'updated_at') return undefined
      return { index: index(flag, 'updated_at'), condition: hasChangedSince }
    },
    p,
  }
}

function hasText({ folded, digits }: Values): SQL {
  const inDigits = digits ? sql`OR instr(clients.phone_digits, ${digits}) > 0` : sql``
  return sql`(instr(clients.search_text, ${folded}) > 0 ${inDigits})`
}

/** The hits in the order of their ids; in an order by id, those behind the cursor. */
function hitsOf({ slot, match, id }: Values, direction: 'ASC' | 'DESC', isById: boolean) {
  const [low, high] = direction === 'ASC' ? [sql`${id} + 1`, sql`9007199254740991`] : [sql`0`, sql`${id} - 1`]
  const isBehind = isById && id && slot
  const inRange = isBehind ? sql`BETWEEN ${rowidOf(slot, low)} AND ${rowidOf(slot, high)}` : slot && inSlot(slot)
  return (limit: SQL) => sql`SELECT ${idOf(sql`rowid`)} AS id FROM clients_fts
    WHERE clients_fts MATCH ${match} AND rowid ${inRange} ORDER BY rowid ${sql.raw(direction)} ${limit}`
}
