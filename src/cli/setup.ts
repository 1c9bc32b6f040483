import { print, runCommand } from './command.ts'
import { openAccount } from './setup-account.ts'
import { HELP, readOptions } from './setup-options.ts'
import { setUp } from './setup-resources.ts'

await runCommand(HELP, async (args) => {
  const options = readOptions(args)
  await setUp(openAccount(options.isDryRun), options)
  const { env, isDryRun } = options
  print(isDryRun ? 'Nothing was changed.' : `Next: npm run migrate -- --env ${env}, npx wrangler deploy --env ${env}`)
})
