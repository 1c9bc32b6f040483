import { env } from 'cloudflare:workers'
import { afterEach, beforeEach, expect, vi } from 'vitest'
import { fairShare } from '../../src/kernel/gate/limits.ts'
import { migrate, removeEverything, testFile } from './app.ts'
import { captureLog } from './log.ts'
import { resumeTime } from './time.ts'

/** A database has places for 1,024 companies, and one file makes a few hundred at most. */
const MAX_COMPANIES = 400

// Run before each test file, since files may share a worker.
captureLog()
const { testPath = '' } = expect.getState()
const wasIsolated = testFile.isIsolated
testFile.isIsolated = testPath.includes('.isolated.')
// Ids and slots matter most to lists, searches and the feed.
testFile.isFar = /\/resources\/(changes|clients|orders)\/[\w-]+\.test\.ts$/.test(testPath)
testFile.minted = 0
beforeEach(() => {
  testFile.minted = Number.POSITIVE_INFINITY
})
afterEach(resumeTime)
// Files share an isolate: the companies of others, and how busy the machine is, must not slow or refuse a test's requests.
beforeEach(() => void vi.spyOn(fairShare, 'isAlone').mockReturnValue(true))
const countCompanies = () =>
  env.DB.prepare('SELECT count(*) AS count FROM companies')
    .first<number>('count')
    .catch(() => 0)
const isEmptied = wasIsolated || testFile.isIsolated
if (isEmptied || ((await countCompanies()) ?? 0) > MAX_COMPANIES) await removeEverything()
await migrate()
