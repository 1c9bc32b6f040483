import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'

const TOOLS = join(import.meta.dirname, '../tools')

it('gives slot 0, which a look-alike has, to no company that a tool measures', () => {
  const files = readdirSync(TOOLS, { recursive: true, encoding: 'utf8' }).filter(
    (name) => name.endsWith('.ts') && !name.includes('node_modules'),
  )
  const taking = files.filter((name) =>
    /INSERT INTO companies \(id, slot[^)]*\)\s+VALUES \([^,]+, 0,/.test(readFileSync(join(TOOLS, name), 'utf8')),
  )
  expect(taking).toEqual([])
})
