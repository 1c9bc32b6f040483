import fc from 'fast-check'
import { expect, it } from 'vitest'
import { mintCompany, sql } from '../../support/app.ts'
import { byKeys, idsOf, type Listed, walk } from '../../support/lists.ts'
import { insert } from '../../support/rows.ts'

/*
 * Lists of clients and orders that are walked by cursors while rows are created, changed, deleted and restored. Writes
 * go to the database, so that they can have any time, in the past too.
 */
const TIMES = 6
const SORTS = ['id', '-id', 'created_at', '-created_at', 'updated_at', '-updated_at'] as const

interface Row extends Listed {
  created_at: number
  updated_at: number
  created_date: string
  deleted: number
}

const time = fc.nat(TIMES)
const write = fc.oneof(
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('create' as const), created: time, updated: time }) },
  {
    weight: 4,
    arbitrary: fc.record({
      kind: fc.constantFrom('change' as const, 'change' as const, 'delete' as const, 'restore' as const),
      row: fc.nat(1000),
      updated: time,
    }),
  },
)

type Write = typeof write extends fc.Arbitrary<infer W> ? W : never

/** Adds rows of the times `?3` above the id `?2`. */
const CREATE = {
  clients: `INSERT INTO clients (company_id, id, company_name, company_name_key, created_at, updated_at)
    SELECT ?1, ?2 + key + 1, 'Client', 'CLIENT', value ->> 0, value ->> 1 FROM json_each(?3)`,
  orders: `INSERT INTO orders (company_id, id, title, client_id, created_at, updated_at, created_date)
    SELECT ?1, ?2 + key + 1, 'Order', 1, value ->> 0, value ->> 1, '2026-01-0' || (value ->> 0 + 1) FROM json_each(?3)`,
}

/** A table with rows of few different times, and the writes to it. */
async function mintTable(table: 'clients' | 'orders', times: readonly (readonly [number, number])[]) {
  const company = await mintCompany()
  const newest = async () => {
    const newestId = `SELECT max(id) AS last FROM ${table} WHERE company_id = ? AND id > 1`
    const [{ last = 0 } = {}] = await sql<{ last: number }>(newestId, company.id)
    return Math.max(1, last)
  }
  const create = async (rows: readonly (readonly [number, number])[]) =>
    sql(CREATE[table], company.id, await newest(), JSON.stringify(rows))
  const holder = { company_name: 'Holder', company_name_key: 'HOLDER', deleted: 1, created_at: 0, updated_at: 0 }
  if (table === 'orders') await insert('clients', { company_id: company.id, id: 1, ...holder })
  await create(times)
  const read = () => sql<Row>(`SELECT * FROM ${table} WHERE company_id = ? AND id > 1 ORDER BY id`, company.id)
  async function run(each: Write): Promise<void> {
    if (each.kind === 'create') {
      await create([[each.created, each.updated]])
      return
    }
    const flag = { change: '', delete: ', deleted = 1', restore: ', deleted = 0' }[each.kind]
    const last = await newest()
    const id = 2 + (each.row % (last - 1))
    // An order and a client with the same id are changed, one after the other.
    await sql('UPDATE companies SET last_change = last_change + 1 WHERE id = ?', company.id)
    await sql(
      `INSERT INTO changes (company_id, sequence, type, entity_id, operation, version, at, previous_updated_at)
       SELECT id, last_change, ?2, ?3, 'update', 1, 0, ?4 FROM companies WHERE id = ?1`,
      ...[company.id, table === 'orders' ? 'clients' : 'orders', id, each.updated],
    )
    const change = `UPDATE ${table} SET version = version + 1, updated_at = ?3${flag} WHERE company_id = ?1 AND id = ?2`
    await sql(change, company.id, id, each.updated)
  }
  return { company, read, run }
}

const cases = (['clients', 'orders'] as const).flatMap((table) =>
  [...SORTS, ...(table === 'orders' ? [undefined] : [])].map((sort) => [table, sort] as const),
)

it.each(cases)('a walk through %s by %s meets every row that stays once, whatever changes', async (table, sort) => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.tuple(time, time), { minLength: 1, maxLength: 10 }),
      fc.array(fc.array(write, { maxLength: 4 }), { minLength: 1, maxLength: 8 }),
      fc.constantFrom('exclude' as const, 'include' as const, 'only' as const),
      fc.integer({ min: 1, max: 4 }),
      fc.boolean(),
      async (times, batches, deleted, perPage, isDeletedFirst) => {
        const { company, read, run } = await mintTable(table, times)
        for (const row of isDeletedFirst ? times.keys() : []) {
          if (row % 2) await run({ kind: 'delete', row, updated: times[row]?.[1] ?? 0 })
        }
        const isListed = (row: Row) => deleted === 'include' || row.deleted === Number(deleted === 'only')
        const start = await read()
        let staying = new Set(idsOf(start.filter(isListed)))
        let turn = 0
        const change = async () => {
          for (const each of batches[turn++ % batches.length] ?? []) {
            // A list in ascending order would grow forever.
            if (each.kind !== 'create' || turn < 8) await run(each)
            const listed = new Set(idsOf((await read()).filter(isListed)))
            staying = new Set([...staying].filter((id) => listed.has(id)))
          }
        }
        const query = { sort, deleted, per_page: perPage }
        const { elements, total } = await walk<Row>(company, `/${table}`, query, change)
        const ids = idsOf(elements)
        expect(new Set(ids).size, 'nothing twice').toBe(ids.length)
        const skipped = [...staying].filter((id) => !ids.includes(id))
        expect(skipped, 'nothing skipped').toEqual([])
        expect(total).toBe(start.filter(isListed).length)

        const column = (sort?.replace('-', '') ?? 'created_date') as keyof Row
        const direction = sort?.startsWith('-') || !sort ? -1 : 1
        const known = new Map((column === 'updated_at' ? start : await read()).map((row) => [row.id, row]))
        const inOrder = ids.toSorted(byKeys((id) => [known.get(id)?.[column] ?? Number.NaN, id], direction))
        expect(ids, 'in the order at the beginning').toEqual(inOrder)
        if (column === 'updated_at') expect(ids.every((id) => known.has(id))).toBe(true)
      },
    ),
    { numRuns: 3 },
  )
})
