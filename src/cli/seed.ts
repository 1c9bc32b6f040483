import { databaseMessage } from '../db/client.ts'
import type { SeedFile } from '../seed/file.ts'
import { describeConflict, describeCounts, describeDifferences, planLoad } from '../seed/load.ts'
import { CommandError, FLAG, print, readCommandLine, resolvePath, runCommand, warn } from './command.ts'
import { type CommandDatabase, openDatabase, PLACE, readPlace } from './database.ts'
import { describeIssues, readSeedFile } from './seed-file.ts'
import { checkStorage, readCredentialsKey } from './seed-integrations.ts'

/**
 * Loads one company in one transaction.
 *
 * @param name of the file, for errors
 * @param key the deployment's `CREDENTIALS_KEY`; needed only for integrations
 * @returns a summary of one line, and the rows that exist, differ from the file and were not changed
 * @throws CommandError when the file contradicts itself or the database, which is then unchanged
 */
export async function loadSeed({ db }: CommandDatabase, file: SeedFile, name: string, key: string, now: number) {
  const plan = await planLoad({ companyId: file.company.id, db, now, credentialsKey: key }, file)
  if (plan.issues.length > 0) throw new CommandError(describeIssues(name, plan.issues))
  if (plan.conflict) throw new CommandError(`${name}: ${plan.conflict}.`)
  await db.write(plan.statements).catch((error: unknown) => {
    const conflict = describeConflict(databaseMessage(error))
    throw conflict === undefined ? error : new CommandError(`${name}: ${conflict}.`)
  })
  return { summary: describeCounts(file, plan.counts), differences: plan.differences }
}

const USAGE = `npm run seed -- FILE.json [--check] ${PLACE.usage}`
const HELP = `${USAGE}

Loads one company's data. The same file twice changes nothing; clients and orders that exist are not changed.
The format is that of src/cli/seed-file.schema.json, an example src/cli/sample-company.json.

  --check      first makes one signed listing of the file's storage; nothing is loaded when that fails
${PLACE.help}`

if (import.meta.main) await runCommand(HELP, main)

async function main(args: string[]): Promise<void> {
  const { positionals, values } = readCommandLine(args, USAGE, { ...PLACE.options, check: FLAG }, { min: 1, max: 1 })
  const [name = ''] = positionals
  const place = readPlace(values, true)
  const file = await readSeedFile(resolvePath(name), name)
  const { storage } = file.integrations
  const key = Object.values(file.integrations).some(Boolean) ? readCredentialsKey(place) : ''
  if (values.check && storage?.enabled) await checkStorage(storage, file.company.id, Date.now())
  const status = storage?.enabled ? `${storage.bucket} can be listed` : 'the file has none that is enabled'
  if (values.check) print(`storage: ${status}.`)
  await using database = await openDatabase(place)
  const { summary, differences } = await loadSeed(database, file, name, key, Date.now())
  print(summary)
  describeDifferences(differences).forEach(warn)
}
