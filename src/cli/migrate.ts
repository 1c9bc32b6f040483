import { DATABASE_BINDING } from '../kernel/db/names.ts'
import { CommandError, command, onlyOne, runCommand } from './command.ts'
import { readState } from './target.ts'
import { CONFIG, readConfiguration, readEnvironment, runWrangler } from './wrangler.ts'

const HELP = `Applies the migrations of drizzle/ that a database lacks, in their order, to every database of the environment. The
only command that changes the schema of a deployed database: run it before the Worker that needs it is deployed.

  --env NAME     the deployed database of this environment of wrangler.toml
  --state DIR    the local database in this directory, by default .wrangler/state
  --config FILE  another wrangler.toml`

const DATA = { usage: '[--env NAME | --state DIR]', read: onlyOne }

const migrate = command({ data: DATA, config: CONFIG }, async ({ data, config }) => {
  const env = data?.name === '--env' ? data.text : undefined
  const { d1_databases } = env === undefined ? readConfiguration(config) : readEnvironment(config, env)
  const where =
    env === undefined ? ['--local', '--persist-to', readState(data?.text, true)] : ['--remote', '--env', env]
  const databases = d1_databases.map(({ binding }) => binding).filter((name) => DATABASE_BINDING.test(name))
  // The directory comes last: by its schema a Worker knows that it may work.
  for (const name of databases.sort().reverse()) {
    const output = await runWrangler(['d1', 'migrations', 'apply', name, ...where, '--config', config])
    // Where it was cut off it says neither, whatever its exit code.
    if (!/No migrations to apply|✅/.test(output)) {
      throw new CommandError('wrangler did not confirm that the migrations are applied: run this again.')
    }
    // Its advice is on options that this command does not have.
    console.log(`${name}\n${output.replaceAll(/^.*(Use|add a) --remote\b.*\n+/gm, '').trim()}`)
  }
})

await runCommand('migrate', HELP, { '': migrate })
