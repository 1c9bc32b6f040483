import { once } from 'node:events'
import { createWriteStream } from 'node:fs'
import { rm } from 'node:fs/promises'
import type { Writable } from 'node:stream'
import * as z from 'zod/mini'
import { readCompany } from '../operation/admin/companies/contract.ts'
import { moveCompany } from '../operation/admin/databases/contract.ts'
import { exportCompany } from '../operation/admin/exports/contract.ts'
import { recoverDeployment, restoreCompany } from '../operation/admin/recovery/contract.ts'
import { AdminError, whenMissing } from './admin-api.ts'
import { CommandError, print, resolvePath, warn } from './command.ts'
import { shortTime } from './operator.ts'
import type { Connection } from './target.ts'

/*
 * The actions of `npm run companies` that move whole companies, each in several requests.
 */

/** Moves a company to another database, step after step. */
export async function move(service: Connection, { company_id, database }: { company_id: number; database: string }) {
  const request = { params: { company_id }, body: { database }, isRepeatable: true } as const
  const explain = (error: unknown): never => {
    const [issue] = error instanceof AdminError ? error.issues : []
    if (issue?.path === 'database') throw new CommandError(`--to ${issue.message}, not '${database}'.`)
    return whenMissing(`There is no company ${company_id}.`)(error)
  }
  for (let last = ''; ; ) {
    const { done, step, source, destination, rows, frozen_ms } = await service.call(moveCompany, request).catch(explain)
    if (!done) {
      if (step !== last) warn(`${source} to ${destination}: ${step}, ${rows} rows copied.`)
      last = step
      continue
    }
    if (destination !== database) return print(`Company ${company_id} stays in ${database}: the move is taken back.`)
    const refused = frozen_ms > 0 ? ` Writes were refused for ${frozen_ms} ms.` : ''
    return print(`Company ${company_id} is in ${database}: ${rows} rows copied.${refused}`)
  }
}

/** Writes all data of a company, response after response. */
export async function exportLines(
  service: Connection,
  { company_id, output: name }: { company_id: number; output: string | undefined },
): Promise<void> {
  const params = { company_id }
  await service.call(readCompany, { params }).catch(whenMissing(`There is no company ${company_id}.`))
  const output = name === undefined ? process.stdout : await openFile(name)
  try {
    let cursor: string | undefined
    do {
      const { body } = await service.open(exportCompany, { params, query: { cursor } })
      cursor = await copyLines(body, output)
    } while (cursor !== undefined)
    if (name !== undefined) await new Promise<void>((resolve) => void output.end(resolve))
  } catch (error) {
    if (name !== undefined) await rm(resolvePath(name), { force: true })
    throw error
  }
}

async function openFile(name: string): Promise<Writable> {
  // It may hold personal data.
  const file = createWriteStream(resolvePath(name), { flags: 'wx', mode: 0o600 })
  await once(file, 'open').catch(({ code }: NodeJS.ErrnoException) => {
    throw new CommandError(`--output '${name}' ${code === 'EEXIST' ? 'exists' : `cannot be written (${code})`}.`)
  })
  return file
}

/** How an export ends. */
const lastLine = z.object({ type: z.enum(['end', 'next']), data: z.object({ cursor: z.optional(z.string()) }) })

/** Copies the lines of an export but the last one. @returns its cursor, if it has one. @throws CommandError without it */
async function copyLines(body: ReadableStream<Uint8Array> | null, output: Writable): Promise<string | undefined> {
  let line = ''
  for await (const text of body?.pipeThrough(new TextDecoderStream()) ?? []) {
    line += text
    // The last line is complete only at the end.
    const end = line.lastIndexOf('\n', line.length - 2) + 1
    if (output.errored) throw output.errored
    if (end > 0 && !output.write(line.slice(0, end))) await once(output, 'drain')
    line = line.slice(end)
  }
  const { success, data } = lastLine.safeParse(parseLine(line))
  if (!success) throw new CommandError('The export was cut off: run it again.')
  if (data.type === 'end') output.write(line)
  return data.data.cursor
}

function parseLine(line: string): unknown {
  try {
    return JSON.parse(line)
  } catch {
    return null
  }
}

/** Loads a backup into an empty company, step after step. */
export async function restore(service: Connection, { company_id, from }: { company_id: number; from: string }) {
  const request = { params: { company_id }, body: { from }, isRepeatable: true } as const
  let progress = await service.call(restoreCompany, request)
  while (!progress.done) progress = await service.call(restoreCompany, request)
  print(`Restored company ${company_id} from the backup of ${shortTime(progress.backup)}: ${progress.rows} rows.`)
  for (const { table, expected, found } of progress.differences) {
    warn(`${table} has ${found} rows, and had ${expected} when the backup ended.`)
  }
  warnOfNumbers(company_id, progress.accounting)
}

function warnOfNumbers(companyId: number, accounting: 'none' | 'read' | 'failed'): void {
  if (accounting !== 'failed') return
  warn(`The last invoice number of company ${companyId} could not be read from its accounting system: run it again.`)
}

/** What follows a restore of the whole database, company after company. */
export async function recover(service: Connection): Promise<void> {
  let [paused, revoked, companies] = [0, 0, 0]
  let cursor: string | undefined
  do {
    const step = await service.call(recoverDeployment, { body: cursor === undefined ? {} : { cursor } })
    paused += step.companies_paused
    revoked += step.tokens_revoked
    if (step.company) {
      companies += 1
      const { id, last_order_id, last_invoice_number, accounting } = step.company
      print(`Company ${id}: orders go on after ${last_order_id}, invoices after number ${last_invoice_number}.`)
      warnOfNumbers(id, accounting)
    }
    cursor = step.next_cursor ?? undefined
  } while (cursor !== undefined)
  const summary = [`Recovered: ${companies}.`, `Tokens revoked again: ${revoked}.`]
  print([...summary, `Companies whose deliveries are paused now: ${paused}.`].join(' '))
  print('When everything is as it should be: npm run companies -- resume-deliveries')
}
