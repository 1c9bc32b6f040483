import { desc, eq, type SQL, sql } from 'drizzle-orm'
import type { RequestContext } from '../../kernel/api/context.ts'
import { OWN_SLOT, orm, type Placeholders, prepare, prepareBatch } from '../../kernel/db/client.ts'
import { clientColumns, jsonRow } from '../../kernel/db/columns.ts'
import type { FoundPage, PageStart } from '../../kernel/db/keyset.ts'
import { OFFSET_MAX, pageOfSpan, spanOfPage, totalOfCounted } from '../../kernel/db/paging.ts'
import { clientBlocks, clientSearchCounts, clients, companies } from '../../kernel/db/schema.ts'
import {
  blockOfGram,
  clientSearch,
  gramBlock,
  gramOf,
  gramPrefix,
  idOf,
  inSlot,
  rowidOf,
} from '../../kernel/db/search.ts'
import { LruCache } from '../../kernel/http/cache.ts'
import type { ClientList } from './contract.ts'
import { listByKey } from './key-queries.ts'
import type { ClientRow } from './queries.ts'

/** A search gathers up to so many hits; one with more, remembered by company and text, counts them by block. */
const GATHERED = 1_000
const manyHits = new LruCache<string, true>({ maxWeight: 10_000 })

/** Counts are cached when more hits were counted than one block holds, of so many blocks and searches of a company. */
const BLOCK_SIZE = 4_096
const BLOCKS_CACHED = 5_000
const SEARCHES_CACHED = 200

/** One page, and the exact total. The newest clients are found by counts, however far the page; others by their keys. */
export async function listClients(
  context: RequestContext,
  query: ClientList,
  { limit, offset, after }: PageStart,
): Promise<FoundPage<ClientRow>> {
  const { page: _page, per_page: _perPage, cursor: _cursor, q = '', sort, deleted, ...filters } = query
  const isFiltered = deleted !== 'exclude' || Object.values(filters).some((value) => value !== undefined)
  const isNewest = sort === '-id' && !isFiltered
  if (after || !isNewest) return listByKey(context, query, { limit, offset, after })
  const { rows, total } = await listNewest(context, q.trim(), { companyId: context.companyId, limit, offset })
  const last = rows.at(-1)
  return { rows, total, next: last && offset + rows.length < total ? [last.id, last.id] : null }
}

async function listNewest(context: RequestContext, text: string, page: Record<keyof Page, number>) {
  if (text !== '') return searchClients(context, text, page)
  if (page.offset > OFFSET_MAX) return readPage(context, deepPage(page), text)
  const [rows, [count]] = await context.db.read(firstPage(page))
  return { rows, total: count?.total ?? 0 }
}

type Page = Placeholders<'companyId' | 'limit' | 'offset'>

const firstPage = prepareBatch(({ companyId, limit, offset }: Page) => [
  orm
    .select(clientColumns)
    .from(clients)
    .where(sql`${clients.company_id} = ${companyId} AND ${clients.deleted} = 0`)
    .orderBy(desc(clients.id))
    .limit(limit)
    .offset(offset),
  orm.select({ total: companies.client_count }).from(companies).where(eq(companies.id, companyId)),
])

const deepPage = prepare((p: Page) => {
  const counted = sql`counted AS MATERIALIZED (
    SELECT block AS part, live AS number FROM ${clientBlocks} WHERE company_id = ${p.companyId} AND live > 0)`
  const inSpan = sql`SELECT id FROM clients WHERE company_id = ${p.companyId} AND deleted = 0
    AND id BETWEEN (SELECT low << 12 FROM span) AND (SELECT (high << 12) | 4095 FROM span)`
  return selectPage(p, counted, pageOfSpan(inSpan, ['id']))
})

async function searchClients(context: RequestContext, q: string, page: Record<keyof Page, number>) {
  const { folded: search, match } = clientSearch(q)
  const values = { ...page, slot: OWN_SLOT, search }
  if (match === null) return readPage(context, pageOfGram({ ...values, gram: gramOf(search) }), search)

  const key = `${page.companyId}/${search}`
  if (!manyHits.get(key)) {
    const found = await readPage(context, pageOfHits({ ...values, match }), search)
    if (found.total < GATHERED) return found
    manyHits.set(key, true)
  }
  return readPage(context, pageOfMatch({ ...values, match }), search)
}

/** Reads a page, and caches the counts that the database had to make for it. */
async function readPage(context: RequestContext, query: ReturnType<typeof deepPage>, search: string) {
  const { db, companyId, now } = context
  const [found] = await db.read([query])
  const counts = found[0]?.counts
  if (counts) {
    const write = db.writeIdempotent(cacheCounts({ companyId, search, counts, now }))
    context.waitUntil(write.catch(() => undefined))
  }
  return { rows: found.flatMap((row) => row.client ?? []), total: found[0]?.total ?? 0 }
}

const client = jsonRow(clientColumns)

/**
 * Selects the total and the clients of a page (one row without a client where it is empty). `counted` are the common
 * table expressions up to `counted`, see {@link spanOfPage}; `counts`, an aggregate of it, are to be cached.
 */
function selectPage({ companyId, limit, offset }: Page, counted: SQL, ids: SQL, counts = sql`NULL`) {
  return orm
    .select({
      total: sql<number>`total`.as('the_total'),
      client: sql`client`.mapWith(client.decode).as('the_client'),
      counts: sql<string | null>`counts`.as('the_counts'),
    })
    .from(
      sql`(WITH ${counted}, ${spanOfPage(limit, offset)}
        SELECT ${totalOfCounted} AS total, ${client.rowOrNull} AS client, (SELECT ${counts} FROM counted) AS counts
        FROM span LEFT JOIN ${clients} ON ${clients.company_id} = ${companyId} AND ${clients.id} IN (${ids})
        ORDER BY ${clients.id} DESC)`,
    )
}

type Search = Page & Placeholders<'slot' | 'search'>

const hitsOf = ({ match }: Placeholders<'match'>) => sql`FROM clients_fts WHERE clients_fts MATCH ${match} AND rowid`

/** A page of the newest hits, and how many were gathered. */
const pageOfHits = prepare((p: Search & Placeholders<'match'>) =>
  selectPage(
    p,
    sql`hits AS MATERIALIZED (
        SELECT ${idOf(sql`rowid`)} AS hit ${hitsOf(p)} ${inSlot(p.slot)} ORDER BY rowid DESC LIMIT ${GATHERED}),
      counted AS MATERIALIZED (SELECT 0 AS part, count(*) AS number FROM hits)`,
    sql`SELECT hit FROM hits ORDER BY hit DESC LIMIT ${p.limit} OFFSET ${p.offset}`,
  ),
)

/** A page of many hits, found by the counts of each block of ids; the total is their sum. */
const pageOfMatch = prepare((p: Search & Placeholders<'match'>) => {
  const firstOf = (block: SQL) => rowidOf(p.slot, sql`CAST(${block} AS INTEGER) << 12`)
  const inBlocks = (low: SQL, high: SQL) => sql`BETWEEN ${firstOf(low)} AND (CAST(${firstOf(high)} AS INTEGER) | 4095)`
  const inSpan = inBlocks(sql`(SELECT low FROM span)`, sql`(SELECT high FROM span)`)
  return searchPage(
    p,
    sql`SELECT block, (SELECT count(*) ${hitsOf(p)} ${inBlocks(sql`block`, sql`block`)}) AS number
      FROM blocks WHERE number IS NULL`,
    pageOfSpan(sql`SELECT ${idOf(sql`rowid`)} AS hit ${hitsOf(p)} ${inSpan}`, ['rowid']),
  )
})

/** The same for one or two characters: the vocabulary of the grams has the number of clients by block. */
const pageOfGram = prepare((p: Search & Placeholders<'gram'>) => {
  const token = (block: SQL) => sql`${gramPrefix(p)} || ${gramBlock(block)}`
  return searchPage(
    p,
    sql`SELECT ${blockOfGram(sql`term`)} AS block, doc AS number FROM clients_grams_counts
      WHERE term BETWEEN (SELECT ${token(sql`min(block)`)} FROM blocks WHERE number IS NULL)
        AND (SELECT ${token(sql`max(block)`)} FROM blocks WHERE number IS NULL)`,
    sql`SELECT hit FROM (
      SELECT ${idOf(sql`clients_grams.rowid`)} AS hit FROM placed CROSS JOIN clients_grams
      WHERE placed.part BETWEEN (SELECT low FROM span) AND (SELECT high FROM span)
        AND clients_grams MATCH ${token(sql`placed.part`)}
      ORDER BY clients_grams.rowid DESC LIMIT (SELECT taken FROM span) OFFSET (SELECT skipped FROM span))`,
  )
})

/**
 * Counts the hits of each block of ids, `recounted` where none is cached for the block's version. Counts are grouped, not
 * joined: without statistics a join would compare every block with every cached one.
 */
function searchPage(p: Search, recounted: SQL, ids: SQL) {
  const counted = sql`blocks AS MATERIALIZED (
      SELECT block, version, iif(counted_version = version, number, NULL) AS number
      FROM (
        SELECT block, max(version) AS version, max(counted_version) AS counted_version, max(number) AS number
        FROM (
          SELECT block, version, NULL AS counted_version, NULL AS number
          FROM ${clientBlocks} WHERE company_id = ${p.companyId} AND live > 0
          UNION ALL SELECT value ->> 0, NULL, value ->> 1, value ->> 2
          FROM ${clientSearchCounts}, json_each(${clientSearchCounts.counts})
          WHERE company_id = ${p.companyId} AND search = ${p.search})
        GROUP BY block)
      WHERE version IS NOT NULL),
    recounted AS MATERIALIZED (${recounted}),
    counted AS MATERIALIZED (
      SELECT blocks.block AS part, version, coalesce(blocks.number, recounted.number, 0) AS number,
        blocks.number IS NULL AS is_new
      FROM blocks LEFT JOIN recounted ON recounted.block = blocks.block)`
  const isWorthCaching = sql`coalesce(sum(number) FILTER (WHERE is_new), 0) > ${BLOCK_SIZE} AND count(*) <= ${BLOCKS_CACHED}`
  const counts = sql`CASE WHEN ${isWorthCaching} THEN json_group_array(json_array(part, version, number)) END`
  return selectPage(p, counted, ids, counts)
}

const cacheCounts = prepareBatch((p: Placeholders<'companyId' | 'search' | 'counts' | 'now'>) => [
  orm
    .insert(clientSearchCounts)
    .values({ company_id: p.companyId, search: p.search, counts: p.counts, counted_at: p.now })
    .onConflictDoUpdate({
      target: [clientSearchCounts.company_id, clientSearchCounts.search],
      set: { counts: sql`excluded.counts`, counted_at: sql`excluded.counted_at` },
    }),
  orm.delete(clientSearchCounts).where(
    sql`company_id = ${p.companyId} AND search NOT IN (SELECT search FROM client_search_counts
      WHERE company_id = ${p.companyId} ORDER BY counted_at DESC LIMIT ${SEARCHES_CACHED})`,
  ),
])
