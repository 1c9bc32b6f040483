import { rm } from 'node:fs/promises'
import type { TestProject } from 'vitest/node'
import { startRuntime } from '../../src/cli/local-runtime.ts'
import { makeStateFolder } from './cli-support.ts'

declare module 'vitest' {
  interface ProvidedContext {
    /** A state directory with a database that is up to date and empty. Tests work on copies. */
    emptyState: string
  }
}

export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const state = await makeStateFolder()
  const runtime = await startRuntime(state)
  await runtime.close()
  project.provide('emptyState', state)
  return () => rm(state, { recursive: true, force: true })
}
