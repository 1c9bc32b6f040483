import { execFileSync } from 'node:child_process'
import { copyFileSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

const SOURCE = import.meta.dirname
const ROOT = join(SOURCE, '../..')
/** `npm run check:types` has checked the sources with the types of a browser. */
const OPTIONS = ['--ignoreConfig', '--declaration', '--rewriteRelativeImportExtensions', '--skipLibCheck', '--strict']
const TARGET = ['--module', 'nodenext', '--target', 'es2022', '--lib', 'es2022,dom', '--types', '']

const output = join(SOURCE, 'dist')

// `npm run build:client`: fills src/client/dist, what the package for integrators consists of.
rmSync(output, { recursive: true, force: true })
const tsc = join(ROOT, 'node_modules/typescript/bin/tsc')
const entries = ['index.ts', 'webhooks.ts'].map((name) => join(SOURCE, name))
const options = [...entries, ...OPTIONS, ...TARGET, '--rootDir', SOURCE, '--outDir', output]
execFileSync(process.execPath, [tsc, ...options], { stdio: 'inherit' })
copyFileSync(join(SOURCE, 'schema.d.ts'), join(output, 'schema.d.ts'))
copyFileSync(join(ROOT, 'LICENSE'), join(output, 'LICENSE'))
// The compiler rewrites the imports of the scripts only.
for (const name of readdirSync(output).filter((name) => name.endsWith('.d.ts'))) {
  const text = readFileSync(join(output, name), 'utf8')
  writeFileSync(join(output, name), text.replaceAll(/(from '\.\/[\w-]+)(\.d)?\.ts'/g, "$1.js'"))
}
