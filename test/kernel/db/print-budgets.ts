import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { formatBudgets } from './budgets.ts'

const GUIDE = join(import.meta.dirname, '../../../src/site/guides/costs.md')

/** `npm run budgets`: writes the table of what requests cost into its guide; `--check` fails where it is out of date. */
const text = readFileSync(GUIDE, 'utf8')
const current = text.replace(/(<!-- the table, [^>]*-->\n)[\s\S]*?(\n<!-- end -->)/, `$1\n${formatBudgets()}$2`)
if (!process.argv.includes('--check')) writeFileSync(GUIDE, current)
else if (current !== text) {
  console.error('src/site/guides/costs.md is out of date: run `npm run budgets`.')
  process.exitCode = 1
}
