import { execFileSync } from 'node:child_process'
import { copyFileSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

const ROOT = join(import.meta.dirname, '../..')
const SOURCE = join(ROOT, 'src/client')
const OUTPUT = join(SOURCE, 'dist')

/* `npm run build:client`: fills src/client/dist, what the package of integrators consists of. */
rmSync(OUTPUT, { recursive: true, force: true })
const tsc = join(ROOT, 'node_modules/typescript/bin/tsc')
execFileSync(process.execPath, [tsc, '-p', join(SOURCE, 'tsconfig.build.json')], { stdio: 'inherit' })
copyFileSync(join(SOURCE, 'schema.d.ts'), join(OUTPUT, 'schema.d.ts'))
copyFileSync(join(ROOT, 'LICENSE'), join(OUTPUT, 'LICENSE'))
// The compiler rewrites the imports of the scripts only.
for (const name of readdirSync(OUTPUT).filter((name) => name.endsWith('.d.ts'))) {
  const text = readFileSync(join(OUTPUT, name), 'utf8')
  writeFileSync(join(OUTPUT, name), text.replaceAll(/(from '\.\/[\w-]+)(\.d)?\.ts'/g, "$1.js'"))
}
