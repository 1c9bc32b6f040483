import { execFile, spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { asObject, type JsonObject } from '../../src/site/reference/json.ts'

const TOOLS = join(import.meta.dirname, 'generators')
const MODULES = join(TOOLS, 'node_modules')
const OUTPUT = join(TOOLS, '.generated')
const DOCUMENT = join(import.meta.dirname, '../../src/site/reference/openapi.json')
const run = promisify(execFile)

/** The command line of each generator, run with its output folder as the working directory. */
const GENERATORS: Record<string, (document: string) => string[]> = {
  'openapi-typescript': (document) => ['openapi-typescript/bin/cli.js', document, '-o', 'types.ts'],
  '@hey-api/openapi-ts': (document) => ['@hey-api/openapi-ts/bin/run.js', '-i', document, '-o', 'client'],
  oazapfts: (document) => ['oazapfts/dist/cli.js', document, 'client.ts'],
  'swagger-typescript-api': (document) => [
    ...['swagger-typescript-api/dist/cli.mjs', 'generate', '-p', document],
    ...['-o', '.', '-n', 'client.ts'],
  ],
  'openapi-zod-client': (document) => ['openapi-zod-client/bin.js', document, '-o', 'client.ts', '--with-alias'],
}

const COMPILER_OPTIONS = {
  ...{ strict: true, noEmit: true, skipLibCheck: true, types: [] },
  ...{ target: 'es2022', lib: ['es2022', 'dom', 'dom.iterable'], module: 'esnext', moduleResolution: 'bundler' },
}

beforeAll(async () => {
  if (!existsSync(MODULES)) {
    console.log('Installing the generators of test/slow/generators (npm ci).')
    const { status } = spawnSync('npm', ['ci', '--ignore-scripts'], { cwd: TOOLS, stdio: 'inherit' })
    expect(status, 'the exit code of npm ci').toBe(0)
  }
  await mkdir(OUTPUT, { recursive: true })
})

afterAll(() => rm(OUTPUT, { recursive: true, force: true }))

describe('the published description', () => {
  it.each(Object.keys(GENERATORS))('becomes a client with every operation that compiles, by %s', async (name) => {
    const { code, errors } = await generate(name, DOCUMENT)
    expect(errors).toBe('')
    const operations = listOperationIds(JSON.parse(await readFile(DOCUMENT, 'utf8')))
    expect(operations.length).toBeGreaterThan(10)
    expect(operations.filter((id) => !new RegExp(`\\b${id}\\b`, 'i').test(code))).toEqual([])
  })

  it('does not compile by openapi-zod-client with a slash that is escaped in a pattern', async () => {
    const document = (await readFile(DOCUMENT, 'utf8')).replace('{0,126}/[', '{0,126}\\\\/[')
    const folder = await mkdtemp(join(OUTPUT, 'document-'))
    await writeFile(join(folder, 'openapi.json'), document)
    const { errors } = await generate('openapi-zod-client', join(folder, 'openapi.json'))
    expect(errors).toMatch(/client\.ts\(\d+,\d+\): error TS1127/)
  })
})

/** The generator's code as one text, and what the compiler reports of it. */
async function generate(name: string, document: string): Promise<{ code: string; errors: string }> {
  const folder = await mkdtemp(join(OUTPUT, 'client-'))
  const [script = '', ...options] = GENERATORS[name]?.(document) ?? []
  await run(process.execPath, [join(MODULES, script), ...options], { cwd: folder })
  const config = { compilerOptions: COMPILER_OPTIONS, include: ['**/*.ts'] }
  await writeFile(join(folder, 'tsconfig.json'), JSON.stringify(config))
  const tsc = join(MODULES, 'typescript/bin/tsc')
  const errors = await run(process.execPath, [tsc, '-p', folder, '--pretty', 'false'], { cwd: folder }).then(
    ({ stdout }) => stdout,
    (error: { stdout: string }) => error.stdout,
  )
  const files = (await readdir(folder, { recursive: true })).filter((file) => file.endsWith('.ts'))
  const texts = await Promise.all(files.map((file) => readFile(join(folder, file), 'utf8')))
  return { code: texts.join('\n'), errors }
}

function listOperationIds(document: JsonObject): string[] {
  return Object.values(asObject(document.paths)).flatMap((item) =>
    Object.values(asObject(item)).map((operation) => String(asObject(operation).operationId)),
  )
}
