import { execFileSync, type StdioOptions } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { build as bundle } from 'esbuild'
import { readConfiguration } from '../../../src/cli/wrangler.ts'

/** This repository. */
export const ROOT = join(import.meta.dirname, '../../..')

/** A built Worker, with the bindings that its `wrangler.toml` names. */
export interface Build {
  configuration: ReturnType<typeof readConfiguration>
  /** A module whose `create` evaluates the Worker's again. */
  factory: string
  /** The names of what the Worker exports, but for its default. */
  exported: string[]
}

/**
 * Builds a Worker as it is deployed.
 *
 * @param root a directory of this repository's form
 * @param out a temporary one
 */
export async function buildFrom(root: string, out: string): Promise<Build> {
  const options = { cwd: root, stdio: ['ignore', 'ignore', 'pipe'] satisfies StdioOptions }
  execFileSync('wrangler', ['deploy', '--dry-run', '--env', 'production', '--outdir', out], options)
  const script = readFileSync(join(out, 'index.js'), 'utf8')
  const configuration = readConfiguration(join(root, 'wrangler.toml'))
  return { configuration, ...(await toFactory(script)) }
}

/** Modules of the runtime that a Worker may import. */
export const RUNTIME = ['cloudflare:*', 'node:*']

/**
 * The Worker's module as a function: each call has a module state of its own, as each isolate has. Its code is that of
 * the build; only its imports and exports are written in another form.
 */
async function toFactory(script: string): Promise<Pick<Build, 'factory' | 'exported'>> {
  const common = { write: false, logLevel: 'silent', external: RUNTIME, bundle: true, target: 'es2024' } as const
  const stdin = { contents: script, loader: 'js' } as const
  const { outputFiles, metafile } = await bundle({ ...common, stdin, format: 'cjs', metafile: true })
  const input = Object.values(metafile.inputs)[0]
  const names = [...new Set(input?.imports.map(({ path }) => path))]
  const { metafile: exports } = await bundle({ ...common, stdin, format: 'esm', metafile: true })
  const exported = Object.values(exports.outputs)[0]?.exports ?? []
  const imports = names.map((name, index) => `import * as module${index} from '${name}'`)
  // What a module of Node exports as default is what `require` returns.
  const modules = names.map((name, index) => `'${name}': module${index}${name.startsWith('node:') ? '.default' : ''}`)
  const factory = `${imports.join('\n')}
const modules = { ${modules.join(', ')} }
const require = (name) => modules[name]
export function create() {
  const module = { exports: {} }
  ;(function (module, exports) {
${outputFiles[0]?.text}
  })(module, module.exports)
  return module.exports
}`
  return { factory, exported: exported.filter((name) => name !== 'default') }
}
