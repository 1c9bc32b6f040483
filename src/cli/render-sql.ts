import type { Parameter, Statement } from './transport.ts'

/** Text in which nothing can be taken for the end of a string, a comment, a statement or a keyword of the splitter. */
const PLAIN = /^[\w @.:+\-/(),{}[\]"]*$/
const KEYWORD = /--|\/\*|\b(begin|end|case|trigger|transaction|savepoint|commit)\b/i

/**
 * A statement as text with its parameters in it, for tools that take only text. Text that is not plainly harmless goes
 * in as the hex of its UTF-8 bytes, so that no content can change what the statement does.
 *
 * @throws Error when the question marks and the parameters do not match
 */
export function renderStatement(statement: Statement): string {
  return fill(statement, renderParameter)
}

/** The same statement with numbers and nulls written out, for an interface that binds text alone. */
export function bindTextOnly(statement: Statement): { sql: string; params: string[] } {
  const sql = fill(statement, (value) => (typeof value === 'string' ? '?' : renderParameter(value)))
  return { sql, params: statement.params.filter((value) => typeof value === 'string') }
}

function fill({ sql, params }: Statement, write: (value: Parameter) => string): string {
  const parts = sql.split('?')
  if (parts.length !== params.length + 1) throw new Error('A statement has not as many parameters as question marks.')
  return parts.map((part, index) => (index === 0 ? part : `${write(params[index - 1] ?? null)}${part}`)).join('')
}

/** Statements one after the other, each on its lines, closed by a semicolon. */
export function renderStatements(statements: Statement[]): string {
  return statements.map((statement) => `${renderStatement(statement)};\n`).join('')
}

function renderParameter(value: Parameter): string {
  if (value === null) return 'NULL'
  if (typeof value === 'string') {
    if (PLAIN.test(value) && !KEYWORD.test(value)) return `'${value}'`
    return `CAST(X'${Buffer.from(value, 'utf8').toString('hex')}' AS TEXT)`
  }
  if (!Number.isFinite(value)) throw new Error('A number in a statement is not finite.')
  return Object.is(value, -0) ? '0' : String(value)
}
