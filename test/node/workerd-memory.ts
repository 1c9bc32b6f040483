import { readdirSync, readFileSync } from 'node:fs'

const EVERY_MS = 20
const KIB_PER_MIB = 1_024

/** Only Linux has the memory of other processes in /proc. */
export const isWorkerdReadable = process.platform === 'linux'

/** Samples the total resident memory of the workerd processes below a process. */
export function watchWorkerd(ancestorPid: number) {
  const beforeMib = readMib(ancestorPid)
  let peakMib = beforeMib
  const sample = () => {
    peakMib = Math.max(peakMib, readMib(ancestorPid))
  }
  const timer = setInterval(sample, EVERY_MS)
  return {
    end: async () => {
      clearInterval(timer)
      sample()
      return { beforeMib, peakMib }
    },
  }
}

function readMib(ancestorPid: number): number {
  if (!isWorkerdReadable) return 0
  const processes = readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .flatMap(readProcess)
  const parents = new Map(processes.map(({ pid, parent }) => [pid, parent]))
  const isBelow = (pid: number | undefined): boolean =>
    pid !== undefined && pid > 1 && (pid === ancestorPid || isBelow(parents.get(pid)))
  const ours = processes.filter(({ pid, name }) => name === 'workerd' && isBelow(pid))
  return Math.round(ours.reduce((sum, { residentKib }) => sum + residentKib, 0) / KIB_PER_MIB)
}

function readProcess(name: string) {
  try {
    const status = readFileSync(`/proc/${name}/status`, 'utf8')
    const field = (key: string) => new RegExp(`^${key}:\\s*(\\S+)`, 'm').exec(status)?.[1] ?? ''
    return [
      { pid: Number(name), parent: Number(field('PPid')), name: field('Name'), residentKib: Number(field('VmRSS')) },
    ]
  } catch {
    // It has ended.
    return []
  }
}
