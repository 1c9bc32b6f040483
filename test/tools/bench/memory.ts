import { readdirSync, readFileSync, writeFileSync } from 'node:fs'

/** The processes of this name that this one started. */
export function childrenNamed(name: string): number[] {
  return readdirSync('/proc')
    .filter((entry) => /^\d+$/.test(entry))
    .map(Number)
    .filter((pid) => {
      const status = statusOf(pid)
      return status.includes(`Name:\t${name}\n`) && status.includes(`PPid:\t${process.pid}\n`)
    })
}

/** Starts to look for another peak. */
export function forgetPeakMemory(pid: number): void {
  writeFileSync(`/proc/${pid}/clear_refs`, '5')
}

/** The peak memory of a process since {@link forgetPeakMemory}. */
export function peakMemoryBytes(pid: number): number {
  return Number(/^VmHWM:\s+(\d+) kB$/m.exec(statusOf(pid))?.[1]) * 1_024
}

function statusOf(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/status`, 'utf8')
  } catch {
    // It has ended in the meantime.
    return ''
  }
}
