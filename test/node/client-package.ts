import { execFile } from 'node:child_process'
import { copyFile, mkdir, writeFile } from 'node:fs/promises'
import { dirname, join, parse } from 'node:path'
import { promisify } from 'node:util'
import { build } from 'vite'
import { buildClient } from '../../src/cli/build-client.ts'

const SOURCE = join(import.meta.dirname, '../../src/client')
export const run = promisify(execFile)

/** The name by which an integrator imports the client. */
export const PACKAGE = 'crm-integration-client'

/** Makes a project in a new folder and installs the client's tarball in it, with its dependencies from the registry. */
export async function installClient(project: string): Promise<void> {
  const source = `${project}-source`
  await mkdir(source, { recursive: true })
  for (const name of ['package.json', 'README.md']) await copyFile(join(SOURCE, name), join(source, name))
  buildClient(join(source, 'dist'))
  const { stdout } = await runNpm(source, 'pack', '--silent', '--ignore-scripts')
  await writeFiles(project, { 'package.json': '{ "private": true, "type": "module" }' })
  const options = ['--prefer-offline', '--ignore-scripts', '--no-audit', '--no-fund']
  await runNpm(project, 'install', join(source, stdout.trim()), ...options)
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

export function runNpm(folder: string, ...args: string[]) {
  return run('npm', args, { cwd: folder, timeout: 120_000 })
}

export async function writeFiles(folder: string, files: Record<string, string>): Promise<void> {
  for (const [name, text] of Object.entries(files)) {
    await mkdir(dirname(join(folder, name)), { recursive: true })
    await writeFile(join(folder, name), text)
  }
}
