import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'

/** The Worker as it is deployed must stay under this, without the page's assets. */
const LIMIT_KIB = 110

const directory = mkdtempSync(join(tmpdir(), 'bundle-'))
try {
  execFileSync('wrangler', ['deploy', '--dry-run', '--outdir', directory], { stdio: ['ignore', 'ignore', 'inherit'] })
  const bundle = readFileSync(join(directory, 'index.js'))
  const kib = (bytes: number) => (bytes / 1024).toFixed(1)
  const gzipped = gzipSync(bundle).length
  console.log(`bundle: ${kib(bundle.length)} KiB, ${kib(gzipped)} KiB gzip (limit ${LIMIT_KIB})`)
  if (gzipped > LIMIT_KIB * 1024) process.exitCode = 1
} finally {
  rmSync(directory, { recursive: true, force: true })
}
