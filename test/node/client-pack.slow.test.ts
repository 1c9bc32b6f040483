import { execFileSync } from 'node:child_process'
import { cp, mkdtemp, readdir, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { startCrmApi } from '../../src/simulators/crm-api.ts'
import { PACKAGE, run, runNpm, writeFiles } from './client-package.ts'

const ROOT = join(import.meta.dirname, '../..')
/** What the client depends on, with its dependencies: from here, so that the test needs no registry. */
const DEPENDENCIES = ['standardwebhooks', '@stablelib/base64', 'fast-sha256']

const PROGRAM = `
import { createClient } from '${PACKAGE}'
import { verifyWebhook } from '${PACKAGE}/webhooks'
const api = createClient({ baseUrl: process.argv[2], token: '${'ab'.repeat(32)}' })
const created = await api.clients.create({ company_name: 'Oak' })
const { data } = await api.clients.list()
console.log(JSON.stringify([created.id, data.length, typeof verifyWebhook]))
`

/** The files of this repository as a clone has them, and its packages. */
async function copyClean(folder: string): Promise<string> {
  const copy = join(folder, 'clone')
  const options = { cwd: ROOT, encoding: 'utf8' } as const
  const files = execFileSync('git', ['ls-files', '-z', '--cached', '--others', '--exclude-standard'], options)
  for (const file of new Set(files.split('\0').filter(Boolean))) {
    await cp(join(ROOT, file), join(copy, file)).catch((error: NodeJS.ErrnoException) => {
      // It was removed, and that is not committed yet.
      if (error.code !== 'ENOENT') throw error
    })
  }
  await symlink(join(ROOT, 'node_modules'), join(copy, 'node_modules'))
  return copy
}

it('npm pack in a clean clone makes a tarball that installs and runs', { timeout: 300_000 }, async () => {
  const folder = await mkdtemp(join(tmpdir(), 'crm-pack-'))
  onTestFinished(() => rm(folder, { recursive: true, force: true }))
  const copy = await copyClean(folder)
  await runNpm(copy, 'pack', '-w', PACKAGE, '--pack-destination', folder)
  const tarball = join(folder, (await readdir(folder)).find((name) => name.endsWith('.tgz')) ?? '')
  const { stdout } = await run('tar', ['-tf', tarball])
  const names = stdout.trim().split('\n')
  for (const name of [
    'package.json',
    'README.md',
    'dist/index.js',
    'dist/index.d.ts',
    'dist/webhooks.js',
    'dist/LICENSE',
  ]) {
    expect(names).toContain(`package/${name}`)
  }
  expect(names.filter((name) => /\.ts$/.test(name) && !/\.d\.ts$/.test(name))).toEqual([])

  const project = join(folder, 'project')
  const packed = await Promise.all(
    DEPENDENCIES.map(async (name) => {
      const source = join(folder, 'dependencies', name)
      await cp(join(ROOT, 'node_modules', name), source, { recursive: true })
      const { stdout } = await runNpm(dirname(source), 'pack', source, '--ignore-scripts', '--silent')
      return join(dirname(source), stdout.trim())
    }),
  )
  await writeFiles(project, { 'package.json': '{ "private": true, "type": "module" }' })
  await runNpm(project, 'install', '--offline', '--no-audit', '--no-fund', ...packed, tarball)
  await writeFile(join(project, 'main.js'), PROGRAM)
  const simulator = await startCrmApi()
  onTestFinished(() => simulator.close())
  const base = `${simulator.url}/t/${crypto.randomUUID()}/api/v1/`
  const result = await run(process.execPath, [join(project, 'main.js'), base], { timeout: 30_000 })
  expect(JSON.parse(result.stdout)).toEqual([1, 1, 'function'])
})
