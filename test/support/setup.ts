import { captureLog } from './log.ts'

// Run before each test file: files may share a worker, but each has a console of its own.
captureLog()
