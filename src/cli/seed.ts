import { describeDifferences } from '../operation/copies/seed/load.ts'
import { FLAG, print, readCommandLine, resolvePath, runCommand, warn } from './command.ts'
import { importSeed } from './import.ts'
import { connect, PLACE, readPlace } from './place.ts'
import { checkSeed, readSeedFile } from './seed-file.ts'
import { checkStorage } from './seed-integrations.ts'

const USAGE = `npm run seed -- FILE.json [--check] ${PLACE.usage}`
const HELP = `${USAGE}

Loads one company's data. The same file twice changes nothing; clients and orders that exist are not changed. A large
file is loaded in parts: a command that was interrupted is run again.
The format is that of src/cli/seed-file.schema.json, an example src/cli/sample-company.json.

  --check       first makes one signed listing of the file's storage; nothing is loaded when that fails
${PLACE.help}`

await runCommand(HELP, async (args) => {
  const { positionals, values } = readCommandLine(args, USAGE, { ...PLACE.options, check: FLAG }, { min: 1, max: 1 })
  const [name = ''] = positionals
  const place = readPlace(values, true)
  const input = await readSeedFile(resolvePath(name), name)
  if (values.check) {
    const { company, integrations } = checkSeed(input, name)
    const { storage } = integrations
    if (storage?.enabled) await checkStorage(storage, company.id, Date.now())
    print(`storage: ${storage?.enabled ? `${storage.bucket} can be listed` : 'the file has none that is enabled'}.`)
  }
  await using service = await connect(place)
  const { summary, differences } = await importSeed(service, input, name)
  print(summary)
  describeDifferences(differences).forEach(warn)
})
