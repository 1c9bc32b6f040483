import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import * as z from 'zod/mini'
import { CommandError } from './command.ts'
import { renderStatement, renderStatements } from './render-sql.ts'
import type { Transport } from './transport.ts'
import { runWrangler } from './wrangler.ts'

const answer = z.array(z.object({ results: z.array(z.record(z.string(), z.unknown())) }))

/**
 * A database through `wrangler d1 execute`: the deployed one with `--remote`. Files are carried out as one transaction.
 *
 * @param place wrangler's options that say which database, e.g. `['--remote']`
 */
export function openWranglerTransport(place: string[]): Transport {
  const execute = (...args: string[]) => runWrangler(['d1', 'execute', 'DB', ...place, '--yes', ...args])
  return {
    async query(statement) {
      const output = await execute('--json', '--command', renderStatement(statement))
      const parsed = answer.safeParse(parseJson(output.slice(output.indexOf('['))))
      if (!parsed.success) throw new CommandError('wrangler d1 execute: its answer cannot be read.')
      return parsed.data[0]?.results.map((row) => Object.values(row)) ?? []
    },
    async write(statements) {
      const directory = await mkdtemp(join(tmpdir(), 'crm-sql-'))
      try {
        const file = join(directory, 'statements.sql')
        await writeFile(file, renderStatements(statements), { mode: 0o600 })
        await execute('--file', file)
      } finally {
        await rm(directory, { recursive: true, force: true })
      }
    },
    close: async () => {},
  }
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return null
  }
}
