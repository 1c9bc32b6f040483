import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { promisify } from 'node:util'
import { expect, it } from 'vitest'
import { readGuides } from '../../src/site/reference/build.ts'
import { type Guide, titleOf } from '../../src/site/reference/page/guides.ts'
import { freshState } from './cli-support.ts'
import { serveState } from './dev-server.ts'

const ROOT = join(import.meta.dirname, '../..')
const run = promisify(execFile)

const guides = await readGuides()

/** Blocks that are run; those of `sh` need a deployment, or a value that only the reader has. */
function blocksOf({ text }: Guide, language: 'bash' | 'ts'): string[] {
  return [...text.matchAll(/^```(\w+)\n([\s\S]*?)^```$/gm)].flatMap(([, name, code = '']) =>
    name === language ? [code] : [],
  )
}

/** The package as it is in the repository, since its own build may be missing or old. */
const useSources = (code: string) =>
  code.replaceAll(/'crm-integration-client(\/webhooks)?'/g, (_, part?: string) => {
    return `'${pathToFileURL(join(ROOT, 'src/client', part ? 'webhooks.ts' : 'index.ts')).href}'`
  })

it('the guides have examples that run, and pages that are served', async () => {
  const dev = await serveState(await freshState())
  const env = { ...process.env, API: dev.url, TOKEN: dev.token }
  const failures: string[] = []
  for (const guide of guides) {
    const [bash, ts] = [blocksOf(guide, 'bash').join('\n'), blocksOf(guide, 'ts').join('\n')]
    const note = ({ stderr, stdout }: { stderr: string; stdout: string }) =>
      failures.push(`${guide.name}: ${stdout.slice(-500)}${stderr.slice(-1_500)}`)
    if (bash) await run('bash', ['-euo', 'pipefail', '-c', bash], { env, cwd: ROOT }).catch(note)
    if (ts)
      await run(process.execPath, ['--input-type=module-typescript', '--eval', useSources(ts)], {
        env,
        cwd: ROOT,
      }).catch(note)
    const page = await fetch(`${dev.url}/guides/${guide.name}`)
    expect([guide.name, page.status]).toEqual([guide.name, 200])
    expect(page.headers.get('content-security-policy')).toContain("default-src 'none'")
    expect(await page.text()).toContain(`<h1>${titleOf(guide)}</h1>`)
  }
  const index = await fetch(`${dev.url}/guides`)
  expect([index.status, await index.text()]).toEqual([200, expect.stringContaining('href="syncing"')])
  expect(failures).toEqual([])
})
