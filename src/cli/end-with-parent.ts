import { watchProcesses } from './parent.ts'

/** Preloaded into a child process with `--import`, so that it ends when its parent has ended. */
watchProcesses([process.ppid], () => process.kill(process.pid, 'SIGTERM'))
