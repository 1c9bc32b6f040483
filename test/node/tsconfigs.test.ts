import { execFile } from 'node:child_process'
import { join, relative } from 'node:path'
import { promisify } from 'node:util'
import { expect, it } from 'vitest'

const ROOT = join(import.meta.dirname, '../..')
const run = promisify(execFile)

/** The type-check runs of `npm run check:types`, one for each environment: worker, Node, client, settings page, tests in workerd. */
const PROJECTS = [
  'src/tsconfig.worker.json',
  'src/tsconfig.node.json',
  'src/tsconfig.browser.json',
  'src/tsconfig.settings.json',
  'test',
]

async function listFiles(project: string): Promise<string[]> {
  const { stdout } = await run(join(ROOT, 'node_modules/.bin/tsc'), ['-p', project, '--listFilesOnly'], { cwd: ROOT })
  return stdout.trim().split('\n')
}

it('type-checks every committed TypeScript file, but for the workspace with a compiler of its own', async () => {
  const { stdout } = await run('git', ['ls-files', '*.ts', ':!test/contract'], { cwd: ROOT })
  const checked = new Set((await Promise.all(PROJECTS.map(listFiles))).flat().map((file) => relative(ROOT, file)))
  const files = stdout.trim().split('\n')
  expect(files.filter((file) => !checked.has(file))).toEqual([])
})
