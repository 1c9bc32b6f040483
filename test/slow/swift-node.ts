import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** Debian's: packages are installed for the system's Python, whatever stands first in the path. */
const PYTHON = '/usr/bin/python3'
const NODE = join(import.meta.dirname, 'swift_node.py')
const READY_MS = 240_000

export interface SwiftNode {
  /** `http://127.0.0.1:PORT` of its S3 API. */
  url: string
  stop: () => Promise<void>
}

/** The keys that it lets in: account and user, and their key. */
export const SWIFT_KEYS = { access_key_id: 'shop:uploads', secret_access_key: 'swift/secret+key' }
export const SWIFT_REGION = 'test-region-1'

/**
 * Installs OpenStack Swift with apt-get where it is missing and this is root.
 *
 * @returns why it cannot be used here, null when it can
 */
export function installSwift(): string | null {
  if (hasSwift()) return null
  if (process.getuid?.() !== 0) return 'python3-swift is not installed, and only root can install it'
  console.log('Installing python3-swift (apt-get).')
  const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' }
  const run = (...args: string[]) => spawnSync('apt-get', ['-qq', ...args], { env, stdio: 'ignore' }).status
  if (run('update') !== 0) return 'apt-get update failed'
  if (run('install', '-y', '--no-install-recommends', 'python3-swift') !== 0) return 'apt-get install failed'
  return hasSwift() ? null : 'python3-swift does not run'
}

function hasSwift(): boolean {
  return spawnSync(PYTHON, ['-c', 'import swift.common.middleware.s3api.s3api'], { stdio: 'ignore' }).status === 0
}

/** Starts one node with its data in a temporary folder. It also ends when this process does. */
export async function startSwift(): Promise<SwiftNode> {
  const folder = await mkdtemp(join(tmpdir(), 'swift-'))
  const { access_key_id: key, secret_access_key: secret } = SWIFT_KEYS
  const child = spawn(PYTHON, [NODE, folder, key, secret, SWIFT_REGION], { stdio: ['pipe', 'pipe', 'pipe'] })
  const ended = once(child, 'close')
  let errors = ''
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    if (errors.length < 10_000) errors += text
  })
  const stop = async () => {
    child.stdin.end()
    const timer = setTimeout(() => child.kill('SIGKILL'), 5_000)
    await ended
    clearTimeout(timer)
    await rm(folder, { recursive: true, force: true })
  }
  const ready = once(child.stdout.setEncoding('utf8'), 'data', { signal: AbortSignal.timeout(READY_MS) })
  const port = await Promise.race([ready.then(([text]) => Number(text)), ended.then(() => null)]).catch(() => null)
  if (port !== null) return { url: `http://127.0.0.1:${port}`, stop }
  await stop()
  throw new Error(`Swift did not get ready: ${errors}`)
}
