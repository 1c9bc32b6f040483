import { once } from 'node:events'
import { spawnWrangler } from '../../src/cli/wrangler.ts'
import { chooseFreePort } from './start-dev.ts'

const STOP_MS = 60_000

/** Starts `wrangler dev` on a free port and waits until it serves. `stop` kills it after a minute. */
export async function startWrangler(...options: string[]) {
  const port = String(await chooseFreePort())
  const place = ['--ip', '127.0.0.1', '--port', port, '--inspector-port', '0', '--show-interactive-dev-session=false']
  const child = spawnWrangler(['dev', ...place, ...options])
  const ended = once(child, 'close').then(() => null)
  const printed = { output: '' }
  for (const stream of [child.stdout, child.stderr]) {
    stream?.setEncoding('utf8').on('data', (text: string) => {
      printed.output += text
    })
  }
  if (!(await Promise.race([once(child, 'message'), ended]))) throw new Error(`wrangler has ended: ${printed.output}`)
  const stop = async () => {
    const timer = setTimeout(() => child.kill('SIGKILL'), STOP_MS)
    child.kill()
    await ended
    clearTimeout(timer)
  }
  return { url: `http://127.0.0.1:${port}`, printed, stop }
}
