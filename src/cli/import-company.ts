import { createReadStream } from 'node:fs'
import { importEmailThread } from '../operation/admin/transfers/contract.ts'
import { describeDifferences } from '../operation/copies/seed/load.ts'
import { readExport, threadOf } from '../operation/copies/seed/split.ts'
import { CommandError, resolvePath } from './command.ts'
import { explain, importSeed, unreadable } from './seed-file.ts'
import type { Connection } from './target.ts'

/**
 * Loads what `export` printed into an empty company: its rows, held in memory, part after part, then each email thread.
 * An interrupted import continues with the first part that is missing; threads that are there stay as they are.
 */
export async function importCompany(
  service: Connection,
  { company_id, file: name }: { company_id: number; file: string },
): Promise<void> {
  const path = resolvePath(name)
  const { file, integrations } = await readExport(linesOf(path, name)).catch((error: unknown) => {
    throw unreadable(name, error)
  })
  const input = { ...file, company: { ...file.company, id: company_id } }
  const { summary, differences } = await importSeed(service, input, name, true)
  let [number, threads, added] = [0, 0, 0]
  for await (const line of linesOf(path, name)) {
    number += 1
    const body = threadOf(line)
    if (body === null) continue
    // As it is in the file: parsed and written again, its numbers could differ.
    const sent = service.call(importEmailThread, { params: { company_id }, body: body as never, isRepeatable: true })
    const { is_new } = await sent.catch((error: unknown) => {
      const remedy = ` Move company ${company_id} to another database, and run this again.`
      throw explain(`${name}, line ${number}`, error, remedy)
    })
    threads += 1
    if (is_new) added += 1
  }
  console.log(summary)
  console.log(`Email threads: ${threads}, of which ${added} were new.`)
  if (integrations.length > 0) {
    console.error(`Set up again, since an export has no credentials: ${integrations.join(', ')}.`)
  }
  for (const line of describeDifferences(differences)) console.error(line)
  if (differences.length > 0) throw new CommandError(`Company ${company_id} has other rows than ${name}.`)
}

/** The lines of a file. Only line feeds end a line: JSON may have other separators within texts. */
async function* linesOf(path: string, name: string): AsyncGenerator<string, void, undefined> {
  let rest = ''
  try {
    const decoder = new TextDecoder('utf-8', { fatal: true })
    for await (const bytes of createReadStream(path, { highWaterMark: 1_048_576 })) {
      const lines = (rest + decoder.decode(bytes, { stream: true })).split('\n')
      rest = lines.pop() ?? ''
      yield* lines
    }
    rest += decoder.decode()
  } catch (error) {
    throw unreadable(name, error)
  }
  if (rest !== '') yield rest
}
