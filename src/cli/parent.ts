import { spawnSync } from 'node:child_process'

const CHECK_MS = 500

/** Calls back once one of the processes, among them this one's parent, has ended, in whatever way. */
export function watchProcesses(pids: readonly number[], onEnd: () => void): void {
  const parent = process.ppid
  const timer = setInterval(() => {
    // An orphan gets another parent, except on Windows. A killed process exists until it is reaped.
    if (process.ppid === parent && pids.every(exists)) return
    clearInterval(timer)
    onEnd()
  }, CHECK_MS)
  timer.unref()
}

/** The parent of this process and, when that is the shell which `npm run` starts, npm: the shell outlives a killed npm. */
export function listNpmProcesses(): number[] {
  const args = ['-o', 'ppid=,comm=', '-p', String(process.ppid)]
  // Without `ps`, as on Windows, only the parent is known.
  const { stdout } = spawnSync('ps', args, { encoding: 'utf8' })
  const [, npm] = /^\s*(\d+)\s+\S*sh\s*$/.exec(stdout ?? '') ?? []
  return npm === undefined ? [process.ppid] : [process.ppid, Number(npm)]
}

function exists(pid: number): boolean {
  try {
    // Signal 0 only tests for the process.
    process.kill(pid, 0)
    return true
  } catch (error) {
    return error instanceof Error && 'code' in error && error.code === 'EPERM'
  }
}
