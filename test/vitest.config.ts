import { hash } from 'node:crypto'
import { existsSync, statfsSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { cloudflareTest, readD1Migrations } from '@cloudflare/vitest-pool-workers'
import { defineConfig, type TestProjectInlineConfiguration } from 'vitest/config'
import { BaseSequencer, type TestSpecification } from 'vitest/node'

// A database waits for its disk with each write: in memory it does not. A run has stored up to 250 MB at once.
const MEMORY = '/dev/shm'
if (existsSync(MEMORY)) {
  const { bavail, bsize } = statfsSync(MEMORY)
  if (bavail * bsize > 2 ** 30) process.env.TMPDIR ??= MEMORY
}
// Commands that tests start compile only what is new.
process.env.NODE_COMPILE_CACHE ??= new URL('../node_modules/.cache/node', import.meta.url).pathname

type Project = TestProjectInlineConfiguration

const NODE = 'test/{journeys,node,slow}/**'
const SLOW = '*.slow.test.ts'
const FRESH = '*.fresh.test.ts'

/** Packages that tests in workerd load. */
const BUNDLED = [
  '@cfworker/json-schema',
  '@hono/zod-validator',
  'aws4fetch',
  'drizzle-orm',
  'drizzle-orm/d1',
  'drizzle-orm/sqlite-core',
  'fast-check',
  'fastest-levenshtein',
  'hono',
  'hono/hono-base',
  'ipaddr.js',
  'jose',
  'saxen',
  'zod/mini',
]

/** Tests in workerd, with the outside world simulated in Node. */
const worker: Project = {
  extends: true,
  plugins: [
    cloudflareTest(async () => ({
      wrangler: { configPath: './wrangler.toml' },
      miniflare: {
        // With the host of a deployment: `.dev.vars` would have every other host than this machine's refused.
        bindings: { TEST_MIGRATIONS: await readD1Migrations('./drizzle'), ADMIN_DEVELOPMENT: '' },
        // Companies live in two databases.
        d1Databases: { DB_TWO: 'second' },
      },
    })),
  ],
  test: {
    globalSetup: ['./test/global-setup.ts'],
    setupFiles: ['./test/support/setup.ts'],
    // For what hangs: a busy machine is slower by far than a quiet one.
    testTimeout: 300_000,
    hookTimeout: 300_000,
    // Vitest would carry each line out of the worker, and fail a run in which an object logs after its file's end.
    disableConsoleIntercept: true,
    // With it, workerd is sent the code of every module again with each file that imports it.
    fsModuleCache: false,
    // Bundled: workerd fetches each module of a package by a request of its own, in every test file again.
    deps: { optimizer: { ssr: { enabled: true, include: BUNDLED } } },
  },
}

/** Tests of what runs in Node, or against other software: commands, browsers, packages installed at the first run. */
const node: Project = {
  extends: true,
  test: { globalSetup: ['./test/node/cli-setup.ts'], testTimeout: 600_000, hookTimeout: 600_000 },
}

/** The longest files come first. */
const ORDER = ['node', 'worker-fresh', 'worker', 'worker-slow', 'node-slow']

/**
 * Files in random order, but by project: a worker is started again for a file of another one. Isolated ones come first, so
 * that few files find everything removed.
 */
class ByProject extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const { seed } = this.ctx.config.sequence
    const keyOf = ({ project, moduleId }: TestSpecification) =>
      `${ORDER.indexOf(project.name)} ${moduleId.includes('.isolated.') ? 0 : 1} ${hash('sha1', `${seed} ${moduleId}`)}`
    return files.toSorted((a, b) => (keyOf(a) < keyOf(b) ? -1 : 1))
  }
}

function project(name: string, base: Project, include: string, exclude: string[] = [], isolate = true): Project {
  return {
    ...base,
    test: {
      ...base.test,
      name,
      isolate,
      include: [include],
      exclude: ['**/node_modules/**', ...exclude],
    },
  }
}

/**
 * `npm test` runs `worker`, `worker-fresh` and `node`. Most files share a worker and its database, where each has companies
 * of its own: starting a worker takes longer than most of them. Those named `*.isolated.test.ts` look at the whole database
 * or change its schema: everything stored is removed before and after them. Those named `*.fresh.test.ts` need an isolate
 * that remembers nothing, and have a worker each.
 *
 * `npm run test:slow` runs the files named `*.slow.test.ts`: long random runs, whole matrices of faults, waits in real
 * time, browsers, installed packages, published examples and migrations by wrangler.
 */
export default defineConfig({
  root: new URL('..', import.meta.url).pathname,
  test: {
    // Workers wait for disks and timers: one more than cores keeps the cores busy.
    maxWorkers: availableParallelism() + 1,
    expect: { poll: { timeout: 120_000 } },
    // No test may need those before it. `--sequence.seed=N` repeats the order of a run, which prints its seed.
    sequence: { sequencer: ByProject, shuffle: { tests: true } },
    projects: [
      project('worker', worker, 'test/**/*.test.ts', [NODE, `**/${SLOW}`, `**/${FRESH}`], false),
      project('worker-fresh', worker, `test/**/${FRESH}`),
      project('worker-slow', worker, `test/**/${SLOW}`, [NODE]),
      project('node', node, `${NODE}/*.test.ts`, [`**/${SLOW}`], false),
      project('node-slow', node, `${NODE}/${SLOW}`),
    ],
  },
})
