import * as z from 'zod/mini'
import {
  type Argument,
  CommandError,
  command,
  flag,
  onlyOne,
  readValue,
  required,
  runCommand,
  TEXT,
} from './command.ts'
import { openAccount, setUp } from './setup-resources.ts'
import { CONFIG } from './wrangler.ts'

// Hints are preferences. Jurisdictions are guarantees, replace a hint, and can never be changed; D1, R2 and KV take the same:
// https://developers.cloudflare.com/d1/configuration/data-location/
const LOCATIONS = ['weur', 'eeur', 'enam', 'wnam', 'apac', 'oc']
const JURISDICTIONS = ['eu', 'us', 'fedramp']

const HELP = `Makes the database, the KV namespace and the buckets that an environment of wrangler.toml names, writes their ids there,
and puts the secrets that its Worker lacks. A second run changes nothing, and completes an interrupted one.

  --env NAME           staging or production
  --location HINT      where the data should be: ${LOCATIONS.join(', ')}
  --jurisdiction NAME  where the data must be, and stays: ${JURISDICTIONS.join(', ')}
  --dry-run            prints each call and changes nothing; without credentials, the calls for an empty account
  --config FILE        another wrangler.toml

CLOUDFLARE_ACCOUNT_ID names the account. CLOUDFLARE_API_TOKEN is a token with the permissions D1 Edit, Workers KV
Storage Edit, Workers R2 Storage Edit and Workers Scripts Edit. Secrets are those of the environment:
STORAGE_ACCESS_KEY_ID and STORAGE_SECRET_ACCESS_KEY of an R2 API token; CREDENTIALS_KEY and ADMIN_TOKEN if they are not
to be generated.`

const oneOf = (names: string[]) => z.enum(names, `must be one of ${names.join(', ')}`)
const LOCATION: Argument<{ location: string | null; jurisdiction: string | null }> = {
  usage: '--location HINT | --jurisdiction NAME',
  read: (given) => {
    const isHint = onlyOne(given)?.name === '--location'
    const name = readValue(oneOf(isHint ? LOCATIONS : JURISDICTIONS), given.at(-1))
    return { location: isHint ? name : null, jurisdiction: isHint ? null : name }
  },
}
const SECRETS = {
  CREDENTIALS_KEY: /^[A-Za-z0-9+/]{43}=?(,[A-Za-z0-9+/]{43}=?)*$/,
  ADMIN_TOKEN: /^[0-9a-f]{64}$/,
  STORAGE_ENDPOINT: /^https:\/\/\S+$/,
  STORAGE_BUCKET: /^\S+$/,
  STORAGE_REGION: /^\S+$/,
  STORAGE_ACCESS_KEY_ID: /^\S+$/,
  STORAGE_SECRET_ACCESS_KEY: /^\S+$/,
}

/** The secrets of an environment. @throws CommandError for a malformed one */
export function readSecrets(env = process.env): NodeJS.Dict<string> {
  const secrets: NodeJS.Dict<string> = {}
  for (const [name, pattern] of Object.entries(SECRETS)) {
    const value = env[name]
    if (!value) continue
    if (!pattern.test(value)) throw new CommandError(`${name} is malformed: see src/site/guides/secrets.md.`)
    secrets[name] = value
  }
  if (!secrets.STORAGE_ACCESS_KEY_ID !== !secrets.STORAGE_SECRET_ACCESS_KEY) {
    throw new CommandError('STORAGE_ACCESS_KEY_ID and STORAGE_SECRET_ACCESS_KEY are a pair: give both.')
  }
  return secrets
}

export const ARGUMENTS = {
  env: required('--env NAME', TEXT),
  at: LOCATION,
  isDryRun: flag('--dry-run'),
  config: CONFIG,
}

const setup = command(ARGUMENTS, async ({ at, isDryRun, ...rest }) => {
  await setUp(openAccount(isDryRun), { ...rest, ...at, secrets: readSecrets() })
  const next = `npm run migrate -- --env ${rest.env}, npx wrangler deploy --env ${rest.env}`
  console.log(isDryRun ? `Nothing was changed. After the setup: ${next}` : `Next: ${next}`)
})

if (import.meta.main) await runCommand('setup', HELP, setup)
