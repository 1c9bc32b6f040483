import { exports } from 'cloudflare:workers'
import { expect } from 'vitest'
import { readExport, splitSeedFile, threadOf } from '../../../src/cli/split-file.ts'
import type { SeedInput } from '../../../src/operation/copies/seed/file.ts'
import { ADMIN_TOKEN, adminCall, adminRequest } from '../../support/admin.ts'
import { freshId, sql } from '../../support/app.ts'
import { smallShop } from '../../support/small-shop.ts'
import { SEEDED } from '../../support/tables.ts'

/** The bodies of the requests that load a seed file. */
export function partsOf(file: SeedInput, options: { check?: boolean; into_empty?: boolean } = {}) {
  const { hash, parts } = splitSeedFile(file)
  return parts.map((part, index) => ({ hash, part: index + 1, parts: parts.length, ...options, ...part }))
}

/** Loads a whole seed file. @returns the differences that were found */
export async function loadSeed(file: SeedInput): Promise<object[]> {
  const differences: object[] = []
  for (const part of partsOf(file)) {
    const { status, body } = await adminCall('POST', `/companies/${file.company.id}/imports`, part)
    expect([status, body.error]).toEqual([200, undefined])
    differences.push(...body.differences)
  }
  return differences
}

/** All rows of a company that a file can change. */
export async function readRows(companyId: number) {
  const entries = [...SEEDED, 'integrations'].map(async (table) => [
    table,
    (await sql(`SELECT * FROM ${table} WHERE company_id = ?`, companyId)).map(({ company_id: _, ...row }) => row),
  ])
  const [company] = await sql('SELECT * FROM companies WHERE id = ?', companyId)
  return { ...Object.fromEntries(await Promise.all(entries)), company }
}

/** A small shop for a company that does not exist yet. */
export function freshShop(): SeedInput {
  const id = 1_000 + freshId()
  return { ...smallShop(id), company: { id, name: `Shop ${id}` } }
}

export const ORDERS = 300

/** Several parts: with rows of each kind, orders without and with numbers, and one order that is a part by itself. */
export function largeShop(id = 1_000 + freshId()): SeedInput {
  const at = { created_at: '2026-01-31T10:00:00.000Z', updated_at: '2026-02-01T10:00:00.000Z' }
  const upTo = (length: number) => Array.from({ length }, (_, index) => index + 1)
  const numbers = upTo(ORDERS)
  return {
    ...smallShop(id),
    clients: numbers.map((id) => ({ id, company_name: `Client ${id}`, ...at })),
    orders: numbers.map((id) => ({
      id,
      title: `Order ${id}`,
      client_id: ORDERS + 1 - id,
      order_status_id: 1 + (id % 2),
      ...at,
      invoice: {
        id,
        ...(id % 3 === 0 && { number: String(5_000 - id) }),
        tax_id: 1,
        items: upTo(id === 7 ? 600 : 1).map((item) => {
          return { id: id * 1_000 + item, title: 'Tee', quantity: 2, unit_price: 9.5 }
        }),
        payments: upTo(id === 7 ? 20 : 0).map((payment) => ({ id: payment, amount: 1 })),
      },
      artworks: id === 7 ? [{ id: 1, name: 'Crest' }] : [],
    })),
    thread_contexts: [
      { thread_id: 't', orders_data: [{ id: 1 }], fetched_at: at.created_at, updated_at: at.updated_at },
    ],
  }
}

export const pathOf = ({ company }: SeedInput) => `/companies/${company.id}/imports`

export const sendPart = (file: SeedInput, part: object | undefined) => adminCall('POST', pathOf(file), part)

/** Sends all parts. */
export async function load(file: SeedInput, check = false) {
  const responses = []
  for (const part of partsOf(file, { check })) responses.push(await sendPart(file, part))
  return responses
}

/** Sends all parts of a file to another company. */
export async function importInto(file: SeedInput, companyId: number, threads: string[] = []) {
  await loadSeed({ ...file, company: { ...file.company, id: companyId } })
  const loaded: boolean[] = []
  for (const thread of threads) {
    const { status, body } = await adminCall('POST', `/companies/${companyId}/imports/email-threads`, thread)
    expect([status, body.error]).toEqual([200, undefined])
    loaded.push(body.is_new)
  }
  return loaded
}

/** The text of one response. */
export async function readPart(companyId: number, query = '') {
  const headers = { authorization: `Bearer ${ADMIN_TOKEN}` }
  const sent = adminRequest('GET', `/companies/${companyId}/export${query}`, undefined, headers)
  const response = await exports.default.fetch(sent)
  expect([response.status, response.headers.get('content-type')]).toEqual([200, 'application/x-ndjson'])
  return response.text()
}

/** All responses, without the lines that continue one. */
export async function readAll(companyId: number): Promise<string[]> {
  const lines: string[] = []
  for (let query = ''; ; ) {
    const text = await readPart(companyId, query)
    expect(text.endsWith('\n')).toBe(true)
    const part = text.trimEnd().split('\n')
    const last = JSON.parse(part.at(-1) ?? '')
    if (last.type !== 'next') return [...lines, ...part]
    lines.push(...part.slice(0, -1))
    query = `?cursor=${last.data.cursor}`
  }
}

/** An export, the JSON of its email threads, and the file of all others. */
export async function exportOf(companyId: number) {
  const lines = await readAll(companyId)
  return { lines, threads: lines.flatMap((line) => threadOf(line) ?? []), file: (await readExport(lines)).file }
}

/** The ids of threads are unique in the database. */
export const removeThreads = async () => {
  for (const table of ['email_thread_objects', 'email_threads']) await sql(`DELETE FROM ${table}`)
}
