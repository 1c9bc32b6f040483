import { desc, eq, type SQL, sql } from 'drizzle-orm'
import type { RequestContext } from '../context.ts'
import { orm, type Placeholders, prepare } from '../db/client.ts'
import { clientColumns, jsonRow } from '../db/columns.ts'
import { IS_NEAR_END, OFFSET_MAX, spanOfPage, takenIf, totalOfCounted } from '../db/paging.ts'
import { clientBlocks, clientSearchCounts, clients, companies } from '../db/schema.ts'
import { blockOfGram, type ClientSearch, clientSearch, gramBlock, gramPrefix, idOf, inSlot } from '../db/search.ts'
import { LruCache } from '../http/cache.ts'
import { offsetOf, type Page } from '../http/contract.ts'
import type { ClientRow } from './present.ts'

/** Up to so many hits are gathered by one search; where there are more, a second one counts them by block. */
const GATHERED = 1_000

/** Searches that had more hits, by company and text: this isolate counts them by block at once. Only a hint. */
const manyHits = new LruCache<string, true>({ maxWeight: 10_000 })

/** Counts are cached where more hits had to be counted than one block holds. */
const BLOCK_SIZE = 4_096

/** Counts of so many blocks are cached at most (about 100 kB), and of so many searches of a company. */
const BLOCKS_CACHED = 5_000
const SEARCHES_CACHED = 200

const client = jsonRow(clientColumns)

/** One page, newest first, and the exact total. */
export async function listClients(
  context: RequestContext,
  page: Page,
  q: string,
): Promise<{ rows: ClientRow[]; total: number }> {
  const { db, companyId } = context
  const [limit, offset] = [page.per_page, offsetOf(page)]
  if (q !== '') return searchClients(context, clientSearch(q), limit, offset)
  if (offset > OFFSET_MAX) {
    const [found] = await db.read([deepPageOfAll({ companyId, limit, offset })])
    return { rows: found.flatMap((row) => row.client ?? []), total: found[0]?.total ?? 0 }
  }
  const [rows, [count]] = await db.read([pageOfAll({ companyId, limit, offset }), countOfAll({ companyId })])
  return { rows, total: count?.total ?? 0 }
}

type List = Placeholders<'companyId' | 'limit' | 'offset'>

const pageOfAll = prepare((p: List) =>
  orm.select(clientColumns).from(clients).where(isLive(p)).orderBy(desc(clients.id)).limit(p.limit).offset(p.offset),
)

const countOfAll = prepare((p: Placeholders<'companyId'>) =>
  orm.select({ total: companies.client_count }).from(companies).where(eq(companies.id, p.companyId)),
)

const deepPageOfAll = prepare((p: List) =>
  orm.select({ total: sql<number>`total`.as('the_total'), client: clientOfPage }).from(
    sql`(WITH counted AS MATERIALIZED (
        SELECT block AS part, live AS number FROM ${clientBlocks} WHERE company_id = ${p.companyId} AND live > 0),
      ${spanOfPage(p.limit, p.offset)}
      SELECT ${totalOfCounted} AS total, ${client.rowOrNull} AS client
      FROM span LEFT JOIN ${clients} ON ${isLive(p)} AND ${clients.id} IN (
        SELECT id FROM (${idsOfSpan(p)} ORDER BY id DESC
          LIMIT ${takenIf(sql`NOT ${IS_NEAR_END}`)} OFFSET (SELECT skipped FROM span))
        UNION ALL SELECT id FROM (${idsOfSpan(p)} ORDER BY id
          LIMIT ${takenIf(IS_NEAR_END)} OFFSET (SELECT available - skipped - taken FROM span)))
      ORDER BY ${clients.id} DESC)`,
  ),
)

const clientOfPage = sql`client`.mapWith(client.decode).as('the_client')

function isLive({ companyId }: Placeholders<'companyId'>): SQL {
  return sql`${clients.company_id} = ${companyId} AND ${clients.deleted} = 0`
}

/** The clients of the blocks that hold the page. */
function idsOfSpan({ companyId }: List): SQL {
  return sql`SELECT id FROM clients WHERE company_id = ${companyId} AND deleted = 0
    AND id BETWEEN (SELECT low << 12 FROM span) AND (SELECT high << 12 | 4095 FROM span)`
}

async function searchClients(context: RequestContext, search: ClientSearch, limit: number, offset: number) {
  const { db, companyId } = context
  const { companySlot: slot } = context.token
  const { folded, match } = search
  const values = { companyId, slot, search: folded, limit, offset }
  if (match === null) return readCounted(context, folded, pageOfGram({ ...values, prefix: gramPrefix(slot, folded) }))

  const key = `${companyId}/${folded}`
  if (!manyHits.get(key)) {
    const [found] = await db.read([pageOfHits({ ...values, match, gathered: GATHERED })])
    const total = found[0]?.total ?? 0
    if (total < GATHERED) return { rows: found.flatMap((row) => row.client ?? []), total }
    manyHits.set(key, true)
  }
  return readCounted(context, folded, pageOfMatch({ ...values, match }))
}

/** Reads a page by counts, and caches what it had to count. */
async function readCounted(context: RequestContext, search: string, query: ReturnType<typeof pageOfMatch>) {
  const { db, companyId, now } = context
  const [found] = await db.read([query])
  const counts = found[0]?.counts
  if (counts) {
    const write = [cacheCounts({ companyId, search, counts, now }), trimCachedCounts({ companyId })] as const
    context.waitUntil(db.writeIdempotent(write).catch(() => undefined))
  }
  return { rows: found.flatMap((row) => row.client ?? []), total: found[0]?.total ?? 0 }
}

type Search = Placeholders<'companyId' | 'slot' | 'search' | 'limit' | 'offset'>

const hitsOf = ({ match }: Placeholders<'match'>) => sql`FROM clients_fts WHERE clients_fts MATCH ${match} AND rowid`

/** A page of the newest hits of `clients_fts`, and how many were gathered. A row without a client where it is empty. */
const pageOfHits = prepare((p: Search & Placeholders<'match' | 'gathered'>) =>
  orm.select({ total: sql<number>`total`.as('the_total'), client: clientOfPage }).from(
    sql`(WITH hits AS MATERIALIZED (
        SELECT ${idOf(sql`rowid`)} AS hit ${hitsOf(p)} ${inSlot(p.slot)} ORDER BY rowid DESC LIMIT ${p.gathered})
      SELECT gathered.number AS total, ${client.rowOrNull} AS client
      FROM (SELECT count(*) AS number FROM hits) AS gathered
      LEFT JOIN ${clients} ON ${clients.company_id} = ${p.companyId}
        AND ${clients.id} IN (SELECT hit FROM hits ORDER BY hit DESC LIMIT ${p.limit} OFFSET ${p.offset})
      ORDER BY ${clients.id} DESC)`,
  ),
)

/** The same of many hits: the page is found by the counts of each block of ids, the total is their sum. */
const pageOfMatch = prepare((p: Search & Placeholders<'match'>) => {
  const rowids = sql`BETWEEN (${rowidOf(p, sql`block`)}) AND (${rowidOf(p, sql`block`)} | 4095)`
  const inSpan = sql`BETWEEN ${rowidOf(p, sql`(SELECT low FROM span)`)} AND (${rowidOf(p, sql`(SELECT high FROM span)`)} | 4095)`
  return searchPage(p, {
    recounted: sql`SELECT block, (SELECT count(*) ${hitsOf(p)} ${rowids}) AS number FROM blocks WHERE number IS NULL`,
    ids: sql`SELECT hit FROM (SELECT ${idOf(sql`rowid`)} AS hit ${hitsOf(p)} ${inSpan} ORDER BY rowid DESC
        LIMIT ${takenIf(sql`NOT ${IS_NEAR_END}`)} OFFSET (SELECT skipped FROM span))
      UNION ALL SELECT hit FROM (SELECT ${idOf(sql`rowid`)} AS hit ${hitsOf(p)} ${inSpan} ORDER BY rowid
        LIMIT ${takenIf(IS_NEAR_END)} OFFSET (SELECT available - skipped - taken FROM span))`,
  })
})

/** The same for one or two characters: how many clients of a block hold them is a row of the grams' vocabulary. */
const pageOfGram = prepare((p: Search & Placeholders<'prefix'>) => {
  const token = (block: SQL) => sql`${p.prefix} || ${gramBlock(block)}`
  return searchPage(p, {
    recounted: sql`SELECT ${blockOfGram(sql`term`)} AS block, doc AS number FROM clients_grams_counts
        WHERE term BETWEEN (SELECT ${token(sql`min(block)`)} FROM blocks WHERE number IS NULL)
          AND (SELECT ${token(sql`max(block)`)} FROM blocks WHERE number IS NULL)`,
    ids: sql`SELECT hit FROM (
        SELECT ${idOf(sql`clients_grams.rowid`)} AS hit FROM placed CROSS JOIN clients_grams
        WHERE placed.part BETWEEN (SELECT low FROM span) AND (SELECT high FROM span)
          AND clients_grams MATCH ${token(sql`placed.part`)}
        ORDER BY clients_grams.rowid DESC LIMIT (SELECT taken FROM span) OFFSET (SELECT skipped FROM span))`,
  })
})

/**
 * The company's blocks of ids, each with the number of hits that is cached for its version. Grouped instead of joined:
 * without statistics the join would compare every block with every cached one.
 */
function knownBlocks({ companyId, search }: Search): SQL {
  return sql`blocks AS MATERIALIZED (
      SELECT block, version, iif(counted_version = version, number, NULL) AS number
      FROM (
        SELECT block, max(version) AS version, max(counted_version) AS counted_version, max(number) AS number
        FROM (
          SELECT block, version, NULL AS counted_version, NULL AS number
          FROM ${clientBlocks} WHERE company_id = ${companyId} AND live > 0
          UNION ALL SELECT value ->> 0, NULL, value ->> 1, value ->> 2
          FROM ${clientSearchCounts}, json_each(${clientSearchCounts.counts})
          WHERE company_id = ${companyId} AND search = ${search})
        GROUP BY block)
      WHERE version IS NOT NULL)`
}

/** @param parts the counts of blocks whose count is not known, and the ids of the page */
function searchPage(p: Search, parts: Record<'recounted' | 'ids', SQL>) {
  const worthCaching = sql`coalesce(sum(number) FILTER (WHERE is_new), 0) > ${sql.raw(`${BLOCK_SIZE}`)}
    AND count(*) <= ${sql.raw(`${BLOCKS_CACHED}`)}`
  return orm
    .select({
      total: sql<number>`total`.as('the_total'),
      client: clientOfPage,
      counts: sql<string | null>`counts`.as('the_counts'),
    })
    .from(
      sql`(WITH ${knownBlocks(p)},
      recounted AS MATERIALIZED (${parts.recounted}),
      counted AS MATERIALIZED (
        SELECT blocks.block AS part, version, coalesce(blocks.number, recounted.number, 0) AS number,
          blocks.number IS NULL AS is_new
        FROM blocks LEFT JOIN recounted ON recounted.block = blocks.block),
      ${spanOfPage(p.limit, p.offset)}
      SELECT ${totalOfCounted} AS total, ${client.rowOrNull} AS client,
        (SELECT CASE WHEN ${worthCaching} THEN json_group_array(json_array(part, version, number)) END FROM counted) AS counts
      FROM span LEFT JOIN ${clients} ON ${clients.company_id} = ${p.companyId} AND ${clients.id} IN (${parts.ids})
      ORDER BY ${clients.id} DESC)`,
    )
}

/** The first rowid of a block in `clients_fts`. */
function rowidOf({ slot }: Search, block: SQL): SQL {
  return sql`(CAST(${slot} AS INTEGER) << 53 | ${block} << 12)`
}

const cacheCounts = prepare((p: Placeholders<'companyId' | 'search' | 'counts' | 'now'>) =>
  orm
    .insert(clientSearchCounts)
    .values({
      company_id: sql`${p.companyId}`,
      search: sql`${p.search}`,
      counts: sql`${p.counts}`,
      counted_at: sql`${p.now}`,
    })
    .onConflictDoUpdate({
      target: [clientSearchCounts.company_id, clientSearchCounts.search],
      set: { counts: sql`excluded.counts`, counted_at: sql`excluded.counted_at` },
    }),
)

const trimCachedCounts = prepare((p: Placeholders<'companyId'>) =>
  orm.delete(clientSearchCounts).where(
    sql`company_id = ${p.companyId} AND search NOT IN (SELECT search FROM client_search_counts
      WHERE company_id = ${p.companyId} ORDER BY counted_at DESC LIMIT ${sql.raw(`${SEARCHES_CACHED}`)})`,
  ),
)
