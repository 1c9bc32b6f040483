import type { ResponseBody } from '../kernel/api/contract.ts'
import { createImport, readImport } from '../operation/admin/imports/contract.ts'
import type { SeedInput } from '../operation/copies/seed/file.ts'
import { countFile, type Difference, describeCounts } from '../operation/copies/seed/load.ts'
import { deriveRows, findDuplicates } from '../operation/copies/seed/rows.ts'
import { splitSeedFile } from '../operation/copies/seed/split.ts'
import { type AdminApi, AdminError } from './admin-api.ts'
import { CommandError } from './command.ts'
import { checkSeed, describeIssues } from './seed-file.ts'

type Imported = ResponseBody<typeof createImport>

/**
 * Loads the data of one company, part after part. An import that was interrupted is continued.
 *
 * @param name of the file, for errors
 * @returns a summary of one line, and the rows that exist, differ from the file and were not changed
 * @throws CommandError when the file is not valid or contradicts the database, which is then unchanged
 */
export async function importSeed(api: AdminApi, input: SeedInput, name: string) {
  const file = checkSeed(input, name)
  const { hash, parts } = splitFile(input, name)
  const company_id = file.company.id
  const send = async (check: boolean, from = 0) => {
    const results: Imported[] = []
    for (const [index, part] of parts.entries()) {
      if (index < from) continue
      const body = { hash, part: index + 1, parts: parts.length, check, file: part.file, known: part.known }
      const request = { params: { company_id }, body, isRepeatable: true } as const
      results.push(await api.call(createImport, request).catch(explain(name)))
    }
    return results.flatMap(({ differences }): Difference[] => differences)
  }
  let differences: Difference[]
  if (parts.length === 1) {
    differences = await send(false)
  } else {
    // Each part is a transaction: none is loaded before all of them are known to be valid.
    const issues = findDuplicates(deriveRows(file, 0, 0))
    if (issues.length > 0) throw new CommandError(describeIssues(name, issues))
    differences = await send(true)
    await send(false, await findNext(api, company_id, hash))
  }
  return { summary: describeCounts(file, countFile(file)), differences }
}

function splitFile(input: SeedInput, name: string) {
  try {
    return splitSeedFile(input)
  } catch (error) {
    throw error instanceof RangeError ? new CommandError(`${name}: ${error.message}.`) : error
  }
}

/** How many parts of an interrupted import are loaded. */
async function findNext(api: AdminApi, company_id: number, hash: string): Promise<number> {
  try {
    const { next_part } = await api.call(readImport, { params: { company_id, hash } })
    return (next_part ?? 1) - 1
  } catch (error) {
    if (error instanceof AdminError && error.status === 404) return 0
    throw error
  }
}

/** For `catch`: an error in the words of the file. */
function explain(name: string) {
  return (error: unknown): never => {
    if (!(error instanceof AdminError)) throw error
    const { status, issues, message } = error
    if (status === 409) throw new CommandError(`${name}: ${message}`)
    if (issues.length === 0) throw error
    const lines = issues.map(({ path, message }) => (path === 'file' ? message : `\`${path}\` ${message}`))
    throw new CommandError(describeIssues(name, lines))
  }
}
