import { once } from 'node:events'
import { createWriteStream } from 'node:fs'
import { rm } from 'node:fs/promises'
import type { Writable } from 'node:stream'
import * as z from 'zod/mini'
import { idText, type ResponseBody } from '../kernel/api/contract.ts'
import { readCompany } from '../operation/admin/companies/contract.ts'
import { exportCompany } from '../operation/admin/exports/contract.ts'
import { recoverDeployment, restoreCompany } from '../operation/admin/recovery/contract.ts'
import { whenMissing } from './admin-api.ts'
import { CommandError, print, readCommandLine, readValue, resolvePath, shortTime, TEXT, warn } from './command.ts'
import { connect, PLACE, readPlace } from './place.ts'

export const PREFIX = 'npm run companies --'

/** The actions of `npm run companies` that move whole companies. */
export const DATA_USAGE = {
  export: `${PREFIX} export ID [--output FILE] ${PLACE.usage}`,
  restore: `${PREFIX} restore ID --from DATE ${PLACE.usage}`,
  recover: `${PREFIX} recover ${PLACE.usage}`,
}

const ONE = { min: 1, max: 1 }
/** How an export ends. */
const lastLine = z.object({ type: z.enum(['end', 'next']), data: z.object({ cursor: z.optional(z.string()) }) })

/** Writes all data of a company, response after response. */
export async function writeExport(args: string[]): Promise<void> {
  const options = { ...PLACE.options, output: TEXT }
  const { values, positionals } = readCommandLine(args, DATA_USAGE.export, options, ONE)
  const company_id = readValue(idText, positionals[0] ?? '', 'ID')
  await using service = await connect(readPlace(values))
  await service.call(readCompany, { params: { company_id } }).catch(whenMissing(`There is no company ${company_id}.`))
  const { output: name } = values
  const output = name === undefined ? process.stdout : await openFile(name)
  try {
    let cursor: string | undefined
    do {
      const { body } = await service.open(exportCompany, { params: { company_id }, query: { cursor } })
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
  await once(file, 'open').catch((error: NodeJS.ErrnoException) => {
    throw new CommandError(
      `--output '${name}' ${error.code === 'EEXIST' ? 'exists' : `cannot be written (${error.code})`}.`,
    )
  })
  return file
}

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
  const { success, data } = lastLine.safeParse(parse(line))
  if (!success) throw new CommandError('The export was cut off: run it again.')
  if (data.type === 'end') output.write(line)
  return data.data.cursor
}

function parse(line: string): unknown {
  try {
    return JSON.parse(line)
  } catch {
    return null
  }
}

/** Loads a backup into an empty company, step after step. */
export async function restore(args: string[]): Promise<void> {
  const { values, positionals } = readCommandLine(args, DATA_USAGE.restore, { ...PLACE.options, from: TEXT }, ONE)
  const company_id = readValue(idText, positionals[0] ?? '', 'ID')
  const { from } = values
  if (from === undefined) throw new CommandError(`Option '--from' is required. Usage: ${DATA_USAGE.restore}`)
  await using service = await connect(readPlace(values))
  const request = { params: { company_id }, body: { from }, isRepeatable: true } as const
  for (;;) {
    const progress = await service.call(restoreCompany, request)
    if (!progress.done) continue
    print(`Restored company ${company_id} from the backup of ${shortTime(progress.backup)}: ${progress.rows} rows.`)
    for (const { table, expected, found } of progress.differences) {
      warn(`${table} has ${found} rows, and had ${expected} when the backup ended.`)
    }
    warnOfNumbers(company_id, progress.accounting)
    return
  }
}

function warnOfNumbers(companyId: number, accounting: 'none' | 'read' | 'failed'): void {
  if (accounting !== 'failed') return
  warn(`The last invoice number of company ${companyId} could not be read from its accounting system: run it again.`)
}

/** What follows a restore of the whole database, company after company. */
export async function recover(args: string[]): Promise<void> {
  const { values } = readCommandLine(args, DATA_USAGE.recover, PLACE.options)
  await using service = await connect(readPlace(values))
  const done = { paused: 0, revoked: 0, companies: 0 }
  let cursor: string | null = null
  do {
    const body = cursor === null ? {} : { cursor }
    const step: ResponseBody<typeof recoverDeployment> = await service.call(recoverDeployment, {
      body,
    })
    done.paused += step.companies_paused
    done.revoked += step.tokens_revoked
    if (step.company) {
      done.companies += 1
      const { id, last_order_id, last_invoice_number, accounting } = step.company
      print(`Company ${id}: orders go on after ${last_order_id}, invoices after number ${last_invoice_number}.`)
      warnOfNumbers(id, accounting)
    }
    cursor = step.next_cursor
  } while (cursor !== null)
  const { companies, revoked, paused } = done
  print(
    `Recovered: ${companies}. Tokens revoked again: ${revoked}. Companies whose deliveries are paused now: ${paused}.`,
  )
  print(`When everything is as it should be: ${PREFIX} resume-deliveries`)
}
