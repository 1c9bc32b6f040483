import { env } from 'cloudflare:workers'
import { afterEach, beforeEach, vi } from 'vitest'
import { fairShare } from '../../src/kernel/gate/limits.ts'
import { migrate, minted, removeEverything } from './app.ts'
import { captureLog } from './log.ts'
import { resumeTime } from './time.ts'

/** A database has places for 1,024 companies, and one file makes a few hundred at most. */
const MAX_COMPANIES = 400

// Run before each test file, since files may share a worker.
captureLog()
minted.count = 0
beforeEach(() => {
  minted.count = Number.POSITIVE_INFINITY
})
afterEach(resumeTime)
// Files share an isolate: the companies of others, and how busy the machine is, must not slow or refuse a test's requests.
beforeEach(() => void vi.spyOn(fairShare, 'isAlone').mockReturnValue(true))
const countCompanies = () =>
  env.DB.prepare('SELECT count(*) AS count FROM companies')
    .first<number>('count')
    .catch(() => 0)
if (env.EMPTIED || ((await countCompanies()) ?? 0) > MAX_COMPANIES) await removeEverything()
await migrate()
