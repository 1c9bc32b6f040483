import * as z from 'zod/mini'
import { CommandError, FLAG, readCommandLine, readValue, resolvePath, TEXT } from './command.ts'
import { readSecrets } from './setup-secrets.ts'
import { PROJECT_ROOT } from './wrangler.ts'

/**
 * Where data is kept. D1 and R2 take the same hints, which are preferences, and all three stores the same jurisdictions,
 * which are guarantees, replace a hint, and can never be changed:
 * https://developers.cloudflare.com/d1/configuration/data-location/
 * https://developers.cloudflare.com/r2/reference/data-location/
 * https://developers.cloudflare.com/api/resources/kv/subresources/namespaces/methods/create/
 */
const LOCATIONS = ['weur', 'eeur', 'enam', 'wnam', 'apac', 'oc']
const JURISDICTIONS = ['eu', 'us', 'fedramp']

const USAGE =
  'npm run setup -- --env NAME --location HINT | --jurisdiction NAME [--domain HOST] [--secrets FILE] [--dry-run]'
export const HELP = `${USAGE}

Makes the database, the KV namespace and the buckets that an environment of wrangler.toml names, writes their ids there,
and puts the secrets that its Worker lacks. A second run changes nothing, and completes an interrupted one.

  --env NAME           staging or production
  --location HINT      where the data should be: ${LOCATIONS.join(', ')}
  --jurisdiction NAME  where the data must be, for ever: ${JURISDICTIONS.join(', ')}
  --domain HOST        a custom domain, in a zone of the account; may be given several times, then replaces all
  --secrets FILE       lines NAME=value, by default from the environment: STORAGE_ACCESS_KEY_ID and
                       STORAGE_SECRET_ACCESS_KEY of an R2 API token; CREDENTIALS_KEY and ADMIN_TOKEN if they are not to
                       be generated
  --dry-run            prints each call and changes nothing; without credentials, the calls for an empty account
  --config FILE        another wrangler.toml

CLOUDFLARE_ACCOUNT_ID names the account. CLOUDFLARE_API_TOKEN is a token with the permissions D1 Edit, Workers KV
Storage Edit, Workers R2 Storage Edit and Workers Scripts Edit.`

const OPTIONS = {
  env: TEXT,
  location: TEXT,
  jurisdiction: TEXT,
  domain: { ...TEXT, multiple: true } as const,
  secrets: TEXT,
  config: TEXT,
  'dry-run': FLAG,
}
const location = z.enum(LOCATIONS, `must be one of ${LOCATIONS.join(', ')}`)
const jurisdiction = z.enum(JURISDICTIONS, `must be one of ${JURISDICTIONS.join(', ')}`)
const host = z.string().check(z.regex(/^([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z]{2,}$/, 'must be a host name'))

/** What the command line asks for. */
export type SetupOptions = ReturnType<typeof readOptions>

/** @throws CommandError for a missing, unknown or malformed option or secret */
export function readOptions(args: string[]) {
  const { values } = readCommandLine(args, USAGE, OPTIONS)
  const { env, 'dry-run': isDryRun = false } = values
  const read = (schema: z.ZodMiniType<string>, name: 'location' | 'jurisdiction') =>
    values[name] === undefined ? null : readValue(schema, values[name], `--${name}`)
  if (env === undefined) throw new CommandError(`--env is missing. Usage: ${USAGE}`)
  const options = {
    env,
    isDryRun,
    location: read(location, 'location'),
    jurisdiction: read(jurisdiction, 'jurisdiction'),
    domains: (values.domain ?? []).map((domain) => readValue(host, domain, '--domain')),
  }
  if ((options.location === null) === (options.jurisdiction === null)) {
    throw new CommandError(`Give either --location or --jurisdiction. Usage: ${USAGE}`)
  }
  const config = values.config === undefined ? `${PROJECT_ROOT}wrangler.toml` : resolvePath(values.config)
  const secrets = readSecrets(values.secrets === undefined ? undefined : resolvePath(values.secrets))
  return { ...options, config, secrets }
}
