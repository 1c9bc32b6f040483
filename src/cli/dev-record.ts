import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import * as z from 'zod/mini'

/** The `dev` process that serves a state directory, written into it while `dev` runs. */
const devRecord = z.object({ pid: z.int().check(z.positive()), url: z.url() })

export type DevRecord = z.output<typeof devRecord>

const fileOf = (state: string) => `${state}/dev.json`

export function writeDevRecord(state: string, url: string): void {
  writeFileSync(fileOf(state), JSON.stringify({ pid: process.pid, url }))
}

/** Removes the record if it is this process's. */
export function removeDevRecord(state: string): void {
  if (readDevRecord(state)?.pid === process.pid) rmSync(fileOf(state), { force: true })
}

/** The record of the `dev` that serves this state directory, or null when there is none or its process has ended. */
export function readDevRecord(state: string): DevRecord | null {
  try {
    const record = devRecord.parse(JSON.parse(readFileSync(fileOf(state), 'utf8')))
    process.kill(record.pid, 0)
    return record
  } catch {
    return null
  }
}
