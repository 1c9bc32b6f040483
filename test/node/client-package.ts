import { execFile } from 'node:child_process'
import { cp, mkdir, readdir, symlink, writeFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { dirname, join, parse } from 'node:path'
import { pathToFileURL } from 'node:url'
import { promisify } from 'node:util'
import { build } from 'vite'
import { temporaryFolder } from './cli-support.ts'

const ROOT = join(import.meta.dirname, '../..')
export const run = promisify(execFile)

/** The name by which an integrator imports the client. */
export const PACKAGE = 'crm-integration-client'

/**
 * Makes a project in a new folder and installs the client in it, packed in a clean clone. Its dependencies come from
 * the registry. @returns the files of the package
 */
export async function installClient(project: string): Promise<string[]> {
  const clone = `${project}-clone`
  await copyClean(clone)
  await runNpm(clone, 'pack', '-w', PACKAGE, '--pack-destination', clone)
  const tarball = join(clone, (await readdir(clone)).find((name) => name.endsWith('.tgz')) ?? '')
  await writeFiles(project, { 'package.json': '{ "private": true, "type": "module" }' })
  const options = ['--prefer-offline', '--ignore-scripts', '--no-audit', '--no-fund']
  await runNpm(project, 'install', tarball, ...options)
  const { stdout } = await run('tar', ['-tf', tarball])
  return stdout.trim().split('\n')
}

/** Copies the files of this repository as a clone has them, and links its packages. */
async function copyClean(clone: string): Promise<void> {
  const { stdout } = await run('git', ['ls-files', '-z', '--cached', '--others', '--exclude-standard'], { cwd: ROOT })
  for (const file of new Set(stdout.split('\0').filter(Boolean))) {
    await cp(join(ROOT, file), join(clone, file)).catch((error: NodeJS.ErrnoException) => {
      // It was removed, and that is not committed yet.
      if (error.code !== 'ENOENT') throw error
    })
  }
  await symlink(join(ROOT, 'node_modules'), join(clone, 'node_modules'))
}

/** Installs the client's package in a new project, as an integrator does, and imports it from there. */
export async function importInstalledClient(): Promise<typeof import('../../src/client/index.ts')> {
  const project = join(await temporaryFolder(), 'project')
  await installClient(project)
  const entry = createRequire(join(project, 'package.json')).resolve(PACKAGE)
  return import(pathToFileURL(entry).href)
}

/** Bundles a module of a project into one for browsers, minified, and writes it where a folder is given. */
export async function bundleModule(project: string, entry: string, outDir?: string): Promise<string> {
  const result = await build({
    root: project,
    configFile: false,
    logLevel: 'error',
    build: {
      ...(outDir === undefined ? { write: false } : { outDir, emptyOutDir: false }),
      target: 'es2022',
      lib: { entry: join(project, entry), formats: ['es'], fileName: parse(entry).name },
    },
  })
  const [output] = Array.isArray(result) ? result : []
  return output?.output[0].code ?? ''
}

export const runNpm = (folder: string, ...args: string[]) => run('npm', args, { cwd: folder, timeout: 120_000 })

export async function writeFiles(folder: string, files: Record<string, string>): Promise<void> {
  for (const [name, text] of Object.entries(files)) {
    await mkdir(dirname(join(folder, name)), { recursive: true })
    await writeFile(join(folder, name), text)
  }
}
