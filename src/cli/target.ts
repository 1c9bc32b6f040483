import { isLoopback } from '../kernel/http/address.ts'
import { type AdminApi, openAdminApi, type Service } from './admin-api.ts'
import { type Argument, CommandError } from './command.ts'
import { readDevVars, startRuntime } from './local-runtime.ts'
import { claimState, readState } from './state.ts'

/** What a command works on: the data in a local state directory, or a deployed service. */
export type Target = { state: string } | Service

export const TARGET_HELP = `  --state DIR   the local data in this directory, by default .wrangler/state
  --remote URL  the service at this address, by default CRM_API_URL of the environment, where it is set;
                CRM_ADMIN_TOKEN is the service's ADMIN_TOKEN`

/**
 * How a command line names its target.
 *
 * @param mayBeNew whether the directory of `--state` may be absent
 * @param words values of `--state` that are no directory
 */
export function target({ mayBeNew = false, words = [] as readonly string[] } = {}): Argument<Target> {
  return {
    usage: '[--state DIR | --remote URL]',
    read: (given) => {
      const find = (option: string) =>
        given.findLast(({ name, text }) => name === option && !words.includes(text))?.text
      return readTarget({ state: find('--state'), remote: find('--remote') }, mayBeNew)
    },
  }
}

/** @throws CommandError when `--remote` and `--state` are both given, either is mistyped, or a service has no token */
export function readTarget(
  { state, remote }: { state?: string | undefined; remote?: string | undefined },
  mayBeNew = false,
): Target {
  if (remote !== undefined && state !== undefined) {
    throw new CommandError("Options '--remote' and '--state' cannot be used together.")
  }
  const address = remote ?? (state === undefined ? process.env.CRM_API_URL : undefined)
  if (!address) return { state: readState(state, mayBeNew) }
  return readService(address, remote === undefined ? 'CRM_API_URL' : '--remote')
}

function readService(address: string, name: string): Service {
  const url = URL.parse(address)
  const isSafe = url?.protocol === 'https:' || (url?.protocol === 'http:' && isLoopback(url.hostname))
  if (!url || !isSafe || url.username !== '' || url.pathname !== '/' || url.search !== '' || url.hash !== '') {
    throw new CommandError(`${name} must be the https address of a service, without a path, not '${address}'.`)
  }
  const { CRM_ADMIN_TOKEN: token = '', CF_ACCESS_CLIENT_ID: id, CF_ACCESS_CLIENT_SECRET: secret } = process.env
  if (!/^[0-9a-f]{64}$/i.test(token)) {
    throw new CommandError(`CRM_ADMIN_TOKEN must be set in the environment: the ADMIN_TOKEN of ${url.origin}.`)
  }
  const headers = id && secret ? { 'cf-access-client-id': id, 'cf-access-client-secret': secret } : {}
  return { url: url.origin, token, headers }
}

/** The administration API of a target, to be closed by `await using`. */
export interface Connection extends AdminApi, AsyncDisposable {
  /** When the service delivers what a command has made due, as the end of a sentence. */
  deliveries: string
}

/**
 * Connects to the service of a target. Of a state directory that is a running `dev`, else a runtime of this process.
 * Only locally the database's schema is brought up to date.
 */
export async function connect(to: Target): Promise<Connection> {
  if ('url' in to) return connection(to, 'at once.')
  const { ADMIN_TOKEN: token } = readDevVars()
  const claim = await claimState(to.state)
  if ('url' in claim) return connection({ url: claim.url, token }, 'at once.')
  try {
    const runtime = await startRuntime(to.state)
    return connection({ url: runtime.url, token }, "when 'npm run dev' runs on this data.", async () => {
      await runtime.close()
      claim.release()
    })
  } catch (error) {
    claim.release()
    throw error
  }
}

function connection(service: Service, deliveries: string, close = async () => {}): Connection {
  return { ...openAdminApi(service), deliveries, [Symbol.asyncDispose]: close }
}
