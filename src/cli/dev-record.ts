import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import * as z from 'zod/mini'

/** Which `dev` serves a state directory; kept in it while `dev` runs. */
const devRecord = z.object({ pid: z.int().check(z.positive()), url: z.url() })

export type DevRecord = z.output<typeof devRecord>

const fileOf = (state: string) => `${state}/dev.json`

export function writeDevRecord(state: string, url: string): void {
  writeFileSync(fileOf(state), JSON.stringify({ pid: process.pid, url }))
}

/** Removes our own record, never another's. */
export function removeDevRecord(state: string): void {
  if (readDevRecord(state)?.pid === process.pid) rmSync(fileOf(state), { force: true })
}

/** The `dev` that runs on this state now, or null. A record whose process is gone counts for nothing. */
export function readDevRecord(state: string): DevRecord | null {
  try {
    const record = devRecord.parse(JSON.parse(readFileSync(fileOf(state), 'utf8')))
    process.kill(record.pid, 0)
    return record
  } catch {
    return null
  }
}
