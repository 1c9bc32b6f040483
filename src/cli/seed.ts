import { CommandError, readCommandLine, resolvePath, runCommand } from './command.ts'
import { openDatabase, readPlace } from './database.ts'
import { readCredentialsKey } from './secrets.ts'
import { readSeedFile } from './seed-file.ts'
import { loadSeed } from './seed-plan.ts'

const USAGE = 'npm run seed -- FILE.json [--state DIR] [--remote]'

await runCommand(async (args) => {
  const { positionals, values, flags } = readCommandLine(args, USAGE, {
    options: ['state'],
    flags: ['remote'],
    positionals: [1, 1],
  })
  const place = readPlace(values.state, flags.has('remote'))
  const [name = ''] = positionals
  const file = await readSeedFile(resolvePath(name), name)
  const keys = readCredentialsKey(place)
  if (keys === null && Object.values(file.integrations).some(Boolean)) {
    throw new CommandError('CREDENTIALS_KEY must be set in the environment: the file has integrations.')
  }
  const database = await openDatabase(place)
  try {
    process.stdout.write(`${await loadSeed(database, file, name, keys, Date.now())}\n`)
  } finally {
    await database.close()
  }
})
