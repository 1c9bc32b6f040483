import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { loadPublished } from '../../../src/site/reference/build.ts'

/** The Worker as it is deployed must stay under this, without the page's assets. An endpoint takes 0.1 to 0.2 KB. */
const LIMIT_KB = 197

const directory = mkdtempSync(join(tmpdir(), 'bundle-'))
try {
  const args = ['deploy', '--dry-run', '--env', 'production', '--outdir', directory]
  execFileSync('wrangler', args, { stdio: ['ignore', 'ignore', 'inherit'] })
  const bundle = readFileSync(join(directory, 'index.js'))
  const kb = (bytes: number) => (bytes / 1000).toFixed(1)
  const gzipped = gzipSync(bundle).length
  console.log(`bundle: ${kb(bundle.length)} KB, ${kb(gzipped)} KB gzip (limit ${LIMIT_KB})`)
  if (gzipped > LIMIT_KB * 1000) {
    console.error('The bundle is over its limit: make it smaller, or raise LIMIT_KB in test/tools/bundle/index.ts.')
    process.exitCode = 1
  }

  const published = [await loadPublished('resources'), await loadPublished('operation/admin')]
  const summaries = new Set(
    published.flatMap(({ documentation }) => Object.values(documentation).map(({ summary }) => summary)),
  )
  for (const summary of [...summaries].filter((each) => bundle.includes(each))) {
    console.error(`The Worker has documentation: "${summary}".`)
    process.exitCode = 1
  }
} finally {
  rmSync(directory, { recursive: true, force: true })
}
