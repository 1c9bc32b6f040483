import { eq, type SQL, sql } from 'drizzle-orm'
import type { RequestContext } from '../../kernel/api/context.ts'
import { OWN_SLOT, orm, type Placeholders, prepare } from '../../kernel/db/client.ts'
import { clientColumns, jsonRow } from '../../kernel/db/columns.ts'
import type { FoundPage, PageStart } from '../../kernel/db/keyset.ts'
import {
  DELETED,
  type Flag,
  type Keyset,
  type KeysetValues,
  pageRows,
  perVariant,
  readKeyset,
  type Source,
  sortOf,
  totalOf,
} from '../../kernel/db/keyset.ts'
import { companies } from '../../kernel/db/schema.ts'
import { clientSearch, gramOf, gramPrefix, idOf, inSlot, rowidOf } from '../../kernel/db/search.ts'
import type { ClientList } from './contract.ts'
import type { ClientRow } from './queries.ts'

/** A page in any order, with any filters, or behind a cursor. */
export async function listByKey(
  context: RequestContext,
  query: ClientList,
  start: PageStart,
): Promise<FoundPage<ClientRow>> {
  const { page: _page, per_page: _perPage, cursor: _cursor, ...listed } = query
  const { sort, deleted, q = '', updated_since, external_id, ...unused } = listed
  unused satisfies Record<string, never>
  const { db, companyId } = context
  const { folded, digits, match } = clientSearch(q.trim())
  const text = match === null ? { gram: gramOf(folded) } : { match }
  const search = folded === '' ? {} : { slot: OWN_SLOT, search: folded, digits, ...text }
  const values = { companyId, updated_since, external_id, ...search }
  const { page, whole } = statements({ sort, deleted })
  const found = await readKeyset(
    db,
    sortOf(sort),
    start,
    (place) => page({ ...values, ...place }),
    () => whole({ ...values, limit: 0 }),
  )
  return { ...found, rows: found.rows.map(({ row }) => row) }
}

type Values = KeysetValues &
  Placeholders<never, 'updated_since' | 'external_id' | 'slot' | 'search' | 'digits' | 'match' | 'gram'>

const CLIENT = jsonRow(clientColumns)

const statements = perVariant((variant: Pick<ClientList, 'sort' | 'deleted'>) => ({
  page: prepare((p: Values) => {
    const { from, order } = pageRows(keysetOf(variant, p))
    const place = sql<string | number>`place`.as('the_place')
    return orm
      .select({ row: CLIENT.row.as('the_row'), place })
      .from(from)
      .orderBy(order)
  }),
  whole: prepare((p: Values) => {
    const list = keysetOf(variant, p)
    const total = totalOf(list, list.filters.some(Boolean) ? undefined : sql`companies.client_count`).as('total')
    return orm.select({ total, sequence: companies.last_change }).from(companies).where(eq(companies.id, p.companyId))
  }),
}))

function keysetOf({ sort, deleted }: Pick<ClientList, 'sort' | 'deleted'>, p: Values): Keyset {
  const { column, direction } = sortOf(sort)
  const hasChangedSince = p.updated_since && sql`clients.updated_at >= ${p.updated_since}`
  const hasExternalId = p.external_id && sql`clients.external_id = ${p.external_id}`
  const filters = [hasChangedSince, hasExternalId]
  const index = (flag: Flag, of: string) =>
    `clients_${flag ? 'deleted' : 'live'}${of === 'id' ? '' : `_${of.replace('_at', '')}`}`
  return {
    table: 'clients',
    sort: { column, direction },
    flags: DELETED[deleted],
    filters: [...filters, p.search && hasText(p, p.search)],
    index: (flag) => index(flag, column),
    source: (flag): Source | undefined => {
      if (hasExternalId) return { index: 'clients_external_id', condition: hasExternalId }
      if (p.slot && flag === 0) {
        // Only those that are not deleted are in the index.
        const ids = p.match ? idsOfMatch(p, direction, column === 'id') : idsOfGram(p)
        return { ids, isPage: Boolean(p.match && column === 'id' && !filters.some(Boolean)) }
      }
      if (!hasChangedSince || column === 'updated_at') return undefined
      return { index: index(flag, 'updated_at'), condition: hasChangedSince }
    },
    p,
  }
}

function hasText({ digits }: Values, search: SQL | Values['search']): SQL {
  const inDigits = digits ? sql`OR instr(clients.phone_digits, ${digits}) > 0` : sql``
  return sql`(instr(clients.search_text, ${search}) > 0 ${inDigits})`
}

/** The hits of a search in the order of their ids; with `isPaged`, those behind the cursor. */
function idsOfMatch({ slot, match, id }: Values, direction: 'ASC' | 'DESC', isPaged: boolean) {
  const [low, high] = direction === 'ASC' ? [sql`${id} + 1`, sql`9007199254740991`] : [sql`0`, sql`${id} - 1`]
  const isBehind = isPaged && id && slot
  const inRange = isBehind ? sql`BETWEEN ${rowidOf(slot, low)} AND ${rowidOf(slot, high)}` : slot && inSlot(slot)
  return (limit: SQL) => sql`SELECT ${idOf(sql`rowid`)} AS id FROM clients_fts
    WHERE clients_fts MATCH ${match} AND rowid ${inRange} ORDER BY rowid ${sql.raw(direction)} ${limit}`
}

/** Those of one or two characters: the vocabulary of the grams has a token for each block of ids with hits. */
function idsOfGram(p: Values) {
  const prefix = gramPrefix(p)
  return (limit: SQL) => sql`SELECT ${idOf(sql`clients_grams.rowid`)} AS id
    FROM clients_grams_counts CROSS JOIN clients_grams
    WHERE term BETWEEN ${prefix} || '0' AND ${prefix} || ':' AND clients_grams MATCH term ${limit}`
}
