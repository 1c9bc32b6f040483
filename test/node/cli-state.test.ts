import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, utimesSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterEach, describe, expect, it, onTestFinished, vi } from 'vitest'
import { type Claim, claimState, target } from '../../src/cli/target.ts'
import { serve, temporaryFolder } from './cli-support.ts'
import { chooseFreePort } from './servers.ts'

afterEach(() => void vi.unstubAllEnvs())

async function makeState(): Promise<{ state: string; file: string }> {
  const state = await temporaryFolder()
  return { state, file: join(state, 'dev.json') }
}

async function claim(state: string): Promise<Claim> {
  const claimed = await claimState(state)
  if ('url' in claimed) throw new Error(`${claimed.url} serves it.`)
  return claimed
}

/** The id of a process that has ended. */
async function endedProcess(): Promise<number> {
  const child = spawn(process.execPath, ['-e', ''])
  await once(child, 'close')
  return child.pid ?? 0
}

describe('the claim of a state directory', () => {
  it('is held by one command at a time', async () => {
    const { state, file } = await makeState()
    const turns: string[] = []
    const first = await claim(state)
    const second = claim(state).then((claimed) => {
      turns.push('second')
      claimed.release()
    })
    await sleep(300)
    turns.push('first')
    first.release()
    await second
    expect(turns).toEqual(['first', 'second'])
    expect(existsSync(file)).toBe(false)
  })

  it('gives the address of the service that holds it, once it serves', async () => {
    const { state } = await makeState()
    const url = await serve((_, response) => void response.end())
    const dev = await claim(state)
    onTestFinished(dev.release)
    const waiting = claimState(state)
    dev.publish(url)
    expect(await waiting).toEqual({ url })
    expect(await claimState(state)).toEqual({ url })
  })

  it('passes on when its process has ended', async () => {
    const { state, file } = await makeState()
    const url = `http://127.0.0.1:${await chooseFreePort()}`
    writeFileSync(file, JSON.stringify({ pid: await endedProcess(), url }))
    const claimed = await claim(state)
    claimed.release()
    // The id of a process that has ended may be that of another one by now.
    writeFileSync(file, JSON.stringify({ pid: process.ppid, url }))
    utimesSync(file, 0, 0)
    const again = await claim(state)
    again.release()
  })

  it('is held by another process until that is killed', async () => {
    const { state } = await makeState()
    const script = `import('./src/cli/target.ts').then(async ({ claimState }) => {
      // Node.js closes a database, and so ends the lock, once nothing refers to it.
      globalThis.claim = await claimState(process.argv[1])
      process.send('claimed')
      setInterval(() => {}, 1_000)
    })`
    const other = spawn(process.execPath, ['-e', script, state], { stdio: ['ignore', 'inherit', 'inherit', 'ipc'] })
    onTestFinished(() => void other.kill('SIGKILL'))
    await once(other, 'message')
    let isMine = false
    const claimed = claim(state).then((mine) => {
      isMine = true
      return mine
    })
    await sleep(500)
    expect(isMine).toBe(false)
    other.kill('SIGKILL')
    const mine = await claimed
    mine.release()
  })

  it('is refused where nothing can be written', async () => {
    const { file } = await makeState()
    writeFileSync(file, '')
    await expect(claimState(file)).rejects.toThrow(`Cannot store data in '${file}': it is not a writable directory.`)
  })
})

describe('the place of a command', () => {
  const TOKEN = 'a'.repeat(64)
  const readTarget = (options: { remote?: string; state?: string }) =>
    target().read(Object.entries(options).map(([name, text]) => ({ name: `--${name}`, text })))

  it('is a directory, or the service that an option or the environment names', async () => {
    const { state } = await makeState()
    vi.stubEnv('CRM_ADMIN_TOKEN', TOKEN)
    expect(readTarget({})).toEqual({ state: expect.stringMatching(/\.wrangler\/state$/) })
    expect(readTarget({ state })).toEqual({ state })
    vi.stubEnv('CRM_API_URL', 'https://crm.example')
    expect(readTarget({})).toEqual({ url: 'https://crm.example', token: TOKEN, headers: {} })
    expect(readTarget({ state })).toEqual({ state })
    expect(readTarget({ remote: 'http://127.0.0.1:8787/' })).toMatchObject({ url: 'http://127.0.0.1:8787' })
    vi.stubEnv('CF_ACCESS_CLIENT_ID', 'id')
    vi.stubEnv('CF_ACCESS_CLIENT_SECRET', 'secret')
    const headers = { 'cf-access-client-id': 'id', 'cf-access-client-secret': 'secret' }
    expect(readTarget({})).toEqual({ url: 'https://crm.example', token: TOKEN, headers })
  })

  it.each<[options: { remote: string; state?: string }, token: string, message: string]>([
    [{ remote: 'https://crm.example', state: '.' }, TOKEN, "Options '--remote' and '--state' cannot be used together."],
    [{ remote: 'https://crm.example' }, '', 'Set CRM_ADMIN_TOKEN to the ADMIN_TOKEN of https://crm.example'],
    [{ remote: 'https://crm.example' }, 'short', 'Set CRM_ADMIN_TOKEN to the ADMIN_TOKEN of https://crm.example'],
    ...['crm.example', 'http://crm.example', 'https://crm.example/api/v1', 'https://u:pw@crm.example', 'ftp://x/'].map(
      (remote): [{ remote: string }, string, string] => [
        { remote },
        TOKEN,
        // The address may hold a password.
        '--remote must be the https address of a service, without a path or a user name.',
      ],
    ),
  ])('is refused for %j', (options, token, message) => {
    vi.stubEnv('CRM_ADMIN_TOKEN', token)
    expect(() => readTarget(options)).toThrow(message)
  })
})
