import * as z from 'zod/mini'
import {
  type Argument,
  type Command,
  CommandError,
  flag,
  optional,
  print,
  readArguments,
  repeated,
  required,
  resolvePath,
  runCommand,
  TEXT,
} from './command.ts'
import { openAccount } from './setup-account.ts'
import { configPath } from './setup-config.ts'
import { setUp } from './setup-resources.ts'
import { readSecrets } from './setup-secrets.ts'

/**
 * Where data is kept. D1 and R2 take the same hints, which are preferences, and all three stores the same jurisdictions,
 * which are guarantees, replace a hint, and can never be changed:
 * https://developers.cloudflare.com/d1/configuration/data-location/
 * https://developers.cloudflare.com/r2/reference/data-location/
 * https://developers.cloudflare.com/api/resources/kv/subresources/namespaces/methods/create/
 */
const LOCATIONS = ['weur', 'eeur', 'enam', 'wnam', 'apac', 'oc']
const JURISDICTIONS = ['eu', 'us', 'fedramp']

const HELP = `Makes the database, the KV namespace and the buckets that an environment of wrangler.toml names, writes their ids there,
and puts the secrets that its Worker lacks. A second run changes nothing, and completes an interrupted one.

  --env NAME           staging or production
  --location HINT      where the data should be: ${LOCATIONS.join(', ')}
  --jurisdiction NAME  where the data must be, and stays: ${JURISDICTIONS.join(', ')}
  --domain HOST        a custom domain, in a zone of the account; may be given several times, then replaces all
  --secrets FILE       lines NAME=value, by default from the environment: STORAGE_ACCESS_KEY_ID and
                       STORAGE_SECRET_ACCESS_KEY of an R2 API token; CREDENTIALS_KEY and ADMIN_TOKEN if they are not to
                       be generated
  --dry-run            prints each call and changes nothing; without credentials, the calls for an empty account
  --config FILE        another wrangler.toml

CLOUDFLARE_ACCOUNT_ID names the account. CLOUDFLARE_API_TOKEN is a token with the permissions D1 Edit, Workers KV
Storage Edit, Workers R2 Storage Edit and Workers Scripts Edit.`

const host = z.string().check(z.regex(/^([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z]{2,}$/, 'must be a host name'))
const oneOf = (names: string[]) => z.enum(names, `must be one of ${names.join(', ')}`)
const EITHER = 'Give either --location or --jurisdiction'
const LOCATION: Argument<{ location: string | null; jurisdiction: string | null }> = {
  usage: '--location HINT | --jurisdiction NAME',
  missing: EITHER,
  read: ([given, another]) => {
    if (!given || another) throw new CommandError(`${EITHER}.`)
    const isHint = given.name === '--location'
    const name = required(given.name, oneOf(isHint ? LOCATIONS : JURISDICTIONS)).read([given])
    return { location: isHint ? name : null, jurisdiction: isHint ? null : name }
  },
}
const ARGUMENTS = {
  env: { ...required('--env NAME', TEXT), missing: '--env is missing' },
  at: LOCATION,
  domains: repeated('--domain HOST', host),
  secrets: optional('--secrets FILE', TEXT),
  isDryRun: flag('--dry-run'),
  config: { ...optional('--config FILE', TEXT), isUnlisted: true as const },
}

/** @throws CommandError for a missing, unknown or malformed option or secret */
export function readOptions(args: string[], prefix = 'npm run setup --') {
  const { at, ...rest } = readArguments(args, prefix, ARGUMENTS)
  const secrets = readSecrets(rest.secrets === undefined ? undefined : resolvePath(rest.secrets))
  return { ...rest, ...at, config: configPath(rest.config), secrets }
}

const setup: Command = {
  arguments: ARGUMENTS,
  run: async (args, prefix) => {
    const options = readOptions(args, prefix)
    const { env, isDryRun } = options
    await setUp(openAccount(isDryRun), options)
    print(isDryRun ? 'Nothing was changed.' : `Next: npm run migrate -- --env ${env}, npx wrangler deploy --env ${env}`)
  },
}

if (import.meta.main) await runCommand('setup', HELP, setup)
