import { CommandError, readCommandLine, resolvePath, runCommand } from './command.ts'
import { openDatabase, readPlace } from './database.ts'
import { readCredentialsKey } from './secrets.ts'
import { readSeedFile, type SeedFile } from './seed-file.ts'
import { loadSeed } from './seed-plan.ts'
import { checkStorage } from './seed-storage.ts'

const USAGE = 'npm run seed -- FILE.json [--check] [--state DIR] [--remote]'
const HELP = `${USAGE}

Loads one company's data. The same file twice changes nothing.

  --check      first makes one signed listing of the file's storage; nothing is loaded when that fails
  --state DIR  the local database of this folder
  --remote     the deployed database
`

await runCommand(async (args) => {
  const { positionals, values, flags } = readCommandLine(args, USAGE, {
    options: ['state'],
    flags: ['check', 'remote', 'help'],
    positionals: [0, 1],
  })
  if (flags.has('help')) return void process.stdout.write(HELP)
  const [name] = positionals
  if (name === undefined) throw new CommandError(`Usage: ${USAGE}`)
  const place = readPlace(values.state, flags.has('remote'))
  const file = await readSeedFile(resolvePath(name), name)
  const keys = readCredentialsKey(place)
  if (keys === null && Object.values(file.integrations).some(Boolean)) {
    throw new CommandError('CREDENTIALS_KEY must be set in the environment: the file has integrations.')
  }
  if (flags.has('check')) process.stdout.write(`${await checkFile(file)}\n`)
  const database = await openDatabase(place)
  try {
    process.stdout.write(`${await loadSeed(database, file, name, keys, Date.now())}\n`)
  } finally {
    await database.close()
  }
})

async function checkFile({ company, integrations: { storage } }: SeedFile): Promise<string> {
  if (!storage?.enabled) return 'storage: the file has none that is enabled.'
  await checkStorage(storage, company.id, Date.now())
  return `storage: ${storage.bucket} can be listed.`
}
