import { mkdirSync } from 'node:fs'
import { CommandError, print, readCommandLine, resolvePath, runCommand, TEXT } from './command.ts'
import { checkEnvironment, listDatabases } from './setup-config.ts'
import { readState } from './state.ts'
import { PROJECT_ROOT, runWrangler } from './wrangler.ts'

const USAGE = 'npm run migrate [-- --env NAME | --state DIR]'
const HELP = `${USAGE}

Applies the migrations of drizzle/ that a database lacks, in their order, to every database of the environment. The
only command that changes the schema of a deployed database: run it before the Worker that needs it is deployed.

  --env NAME     the deployed database of this environment of wrangler.toml
  --state DIR    the local database in this directory, by default .wrangler/state
  --config FILE  another wrangler.toml`

await runCommand(HELP, async (args) => {
  const { values } = readCommandLine(args, USAGE, { env: TEXT, state: TEXT, config: TEXT })
  const { env, state } = values
  if (env !== undefined && state !== undefined) {
    throw new CommandError("Options '--env' and '--state' cannot be used together.")
  }
  const config = values.config === undefined ? `${PROJECT_ROOT}wrangler.toml` : resolvePath(values.config)
  if (env !== undefined) checkEnvironment(config, env)
  const place = env === undefined ? ['--local', '--persist-to', makeState(state)] : ['--remote', '--env', env]
  // The directory comes last: by its schema a Worker knows that it may work.
  for (const name of listDatabases(config, env).reverse()) {
    const output = await runWrangler(['d1', 'migrations', 'apply', name, ...place, '--config', config])
    // Where it was cut off it says neither, whatever its exit code.
    if (!/No migrations to apply|✅/.test(output))
      throw new CommandError('wrangler did not say that it has applied them: run it again.')
    print(output.trim())
  }
})

function makeState(directory?: string): string {
  const state = readState(directory, true)
  mkdirSync(state, { recursive: true })
  return state
}
