import { execFileSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'

export function listProcesses(): { pid: number; parent: number; name: string }[] {
  const lines = execFileSync('ps', ['-eo', 'pid=,ppid=,comm='], { encoding: 'utf8' }).trim().split('\n')
  return lines.map((line) => {
    const [own, parent, ...name] = line.trim().split(/\s+/)
    return { pid: Number(own), parent: Number(parent), name: name.join(' ') }
  })
}

/** The processes that a process started, and theirs. */
export function listDescendants(pid: number): { pid: number; name: string }[] {
  const all = listProcesses()
  const listBelow = (id: number): typeof all =>
    all.filter((each) => each.parent === id).flatMap((each) => [each, ...listBelow(each.pid)])
  return listBelow(pid)
}

export function listRuntimes(pid: number): number[] {
  return listDescendants(pid).flatMap((each) => (each.name.includes('workerd') ? [each.pid] : []))
}

/** The process of `npm run dev` that runs the service: the last that was started, since the first only proxies requests. */
export function findWorker(pid: number): number {
  const runtimes = listRuntimes(pid)
  if (runtimes.length === 0) throw new Error('There is no process of workerd.')
  return Math.max(...runtimes)
}

/** @param pid of a process, or less than 0 for a group */
export function killProcess(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL')
  } catch (error) {
    // It has just ended by itself.
    if (!(error instanceof Error && 'code' in error && error.code === 'ESRCH')) throw error
  }
}

/** Starts to look for another peak. */
export function forgetPeakMemory(pid: number): void {
  writeFileSync(`/proc/${pid}/clear_refs`, '5')
}

/** The peak memory of a process since {@link forgetPeakMemory}. */
export function peakMemoryBytes(pid: number): number {
  return Number(/^VmHWM:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) * 1_024
}
