import { command, required, resolvePath, runCommand, TEXT } from './command.ts'
import { describeDifferences, importSeed, readSeedFile } from './seed-file.ts'
import { connect, target } from './target.ts'

const HELP = `Loads one company's data. The same file twice changes nothing; clients and orders that exist are not changed. A large
file is loaded in parts: a command that was interrupted is run again.
The format is that of src/cli/seed-file.schema.json, an example src/cli/sample-company.json.`

const ARGUMENTS = { file: required('FILE.json', TEXT), target: target({ mayBeNew: true }) }

const seed = command(ARGUMENTS, async ({ file, target }) => {
  const input = await readSeedFile(resolvePath(file), file)
  await using service = await connect(target)
  const { summary, differences } = await importSeed(service, input, file)
  console.log(summary)
  for (const line of describeDifferences(differences)) console.error(line)
})

await runCommand('seed', HELP, { '': seed })
