import { exports } from 'cloudflare:workers'
import { expect } from 'vitest'
import type { SeedInput } from '../../../src/operation/copies/seed/file.ts'
import { readExport, threadOf } from '../../../src/operation/copies/seed/split.ts'
import { ADMIN_TOKEN, adminCall, adminRequest } from '../../support/admin.ts'
import { sql } from '../../support/app.ts'
import { loadSeed } from './import-support.ts'

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
