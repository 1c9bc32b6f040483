import { mkdtemp, rm } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { onTestFinished } from 'vitest'
import { installClient, PACKAGE } from '../node/client-package.ts'

/** Installs the client's package in a new project, as an integrator does, and imports it from there. */
export async function importInstalledClient(): Promise<typeof import('../../src/client/index.ts')> {
  const folder = await mkdtemp(join(tmpdir(), 'crm-journey-'))
  onTestFinished(() => rm(folder, { recursive: true, force: true }))
  const project = join(folder, 'project')
  await installClient(project)
  const entry = createRequire(join(project, 'package.json')).resolve(PACKAGE)
  return import(pathToFileURL(entry).href)
}
