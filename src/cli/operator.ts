import * as z from 'zod/mini'
import { ApiError } from '../client/errors.ts'
import { type Contract, isoTime, LAST_INSTANT, type ResponseBody } from '../kernel/api/contract.ts'
import { readCompany } from '../operation/admin/companies/contract.ts'
import type { Element, InputOf, RequestOf } from './admin-api.ts'
import { type Argument, type Arguments, type Command, CommandError, command, nameOf, type Values } from './command.ts'
import { type Connection, connect, type Target, target } from './target.ts'

/** The arguments that a contract takes: all are among its parameters and fields, and fields have their types. */
type Fitting<C extends Contract, A extends Arguments> = {
  [K in keyof A]: K extends keyof InputOf<C['body']>
    ? Argument<InputOf<C['body']>[K] | undefined>
    : K extends keyof (InputOf<C['params']> & InputOf<C['query']>) | 'target'
      ? A[K]
      : never
}

/** One action as data. Arguments with the names of the contract's parameters and fields are sent as those. */
interface Row<C extends Contract, A extends Arguments> {
  contract: C
  arguments: A & Fitting<C, A>
}

export function request<C extends Contract, A extends Arguments>(
  row: Row<C, A> & { print: (response: ResponseBody<C>, values: Values<A>, service: Connection) => string },
) {
  return toCommand<C, A>(row, async (service, request, values) => {
    console.log(row.print(await service.call(row.contract, request), values, service))
  })
}

type Cell = string | number | boolean | null | readonly (string | number)[]

export function listing<C extends Contract, A extends Arguments>(
  row: Row<C, A> & {
    columns: Record<string, keyof Element<C> | ((row: Element<C>) => Cell)>
    limit?: number
    empty?: string
    after?: (elements: Element<C>[], values: Values<A>, service: Connection) => void | Promise<void>
  },
) {
  return toCommand<C, A>(row, async (service, request, values) => {
    const { limit = Number.POSITIVE_INFINITY, columns, empty, after } = row
    const shown: Element<C>[] = []
    for await (const element of service.list(row.contract, request)) if (shown.push(element) > limit) break
    if (shown.length === 0) await requireCompany(service, values)
    const cells = shown.slice(0, limit).map((row) => {
      return Object.values(columns).map((each) => (typeof each === 'function' ? each(row) : (row[each] as Cell)))
    })
    console.log(shown.length === 0 && empty ? empty : formatTable(Object.keys(columns), cells))
    if (shown.length > limit) console.log('… and more.')
    await after?.(shown, values, service)
  })
}

/** A filter by an unknown company finds nothing, as one by a company without any does. @throws ApiError for the former */
export async function requireCompany(service: Connection, { company_id }: { company_id?: unknown }): Promise<void> {
  if (company_id !== undefined) await service.call(readCompany, { params: { company_id: Number(company_id) } })
}

export function operation<A extends Arguments>(
  described: A,
  run: (service: Connection, values: Values<A>) => Promise<void>,
): Command {
  const all: A & Arguments = { ...described, target: described.target ?? target() }
  return command(all, async (values) => {
    await using service = await connect(z.object({ target: z.custom<Target>() }).parse(values).target)
    await run(service, values).catch((error: unknown) => {
      if (!(error instanceof ApiError)) throw error
      // In the words of the command line.
      const { company_id } = values
      if (company_id && error.message === 'Company not found.')
        throw new CommandError(`There is no company ${company_id}.`)
      const toOption = (quoted: string, name: string) => (described[name] ? nameOf(described[name]) : quoted)
      throw new CommandError(error.message.replace('The body', 'The command').replaceAll(/`(\w+)`/g, toOption))
    })
  })
}

function toCommand<C extends Contract, A extends Arguments>(
  { contract: { path, body }, arguments: described }: Row<C, A>,
  run: (service: Connection, request: RequestOf<C>, values: Values<A>) => Promise<void>,
): Command {
  return operation(described, async (service, values) => {
    const [[key, { find }] = ['', { find: undefined }]] = Object.entries<Argument<unknown>>(described)
    const found = find && (await service.call(find, { query: { id: String(values[key]) } })).data[0]
    if (find && !found) throw new CommandError(`There is no ${key.replace('_id', '')} ${values[key]}.`)
    const fields = Object.entries(values).filter(([name]) => name !== 'target' && !path.includes(`{${name}}`))
    // The service validates them.
    const request = { params: { ...values, ...found }, [body ? 'body' : 'query']: Object.fromEntries(fields) }
    await run(service, request as RequestOf<C>, values)
  })
}

export function formatTable(headings: string[], rows: readonly (readonly Cell[])[]): string {
  const toText = (cell: Cell) => (cell === null ? '-' : shortTime(toLine(String(cell))))
  const lines = [headings, ...rows.map((cells) => cells.map(toText))]
  const widths = headings.map((_, column) => Math.max(...lines.map((cells) => cells[column]?.length ?? 0)))
  const align = (cells: string[]) => cells.map((cell, at) => cell.padEnd(widths[at] ?? 0)).join('  ')
  return lines.map((cells) => align(cells).trimEnd()).join('\n')
}

/** A time of the API without fractions of a second; any other text as it is. */
export function shortTime(text: string): string {
  return text.replace(/^(\d{4}-\d\d-\d\dT[\d:]+)\.\d+Z$/, '$1Z')
}

/** Text of somebody else in one line. */
export function toLine(text: string): string {
  return text.replaceAll(/[\p{Cc}\s]+/gu, ' ').trim()
}

/** A date-time, or the start or end of a date in UTC, as the API takes it. */
export function time(of: 'start' | 'end') {
  const error = 'must be a date (2027-01-31) or a date-time with an offset'
  const lengthOf = (text: string) => (of === 'start' || text.includes('T') ? 0 : 86_400_000)
  const toTime = (text: string) => isoTime(Math.min(LAST_INSTANT, Date.parse(text) + lengthOf(text)))
  return z.pipe(z.union([z.iso.date(), z.iso.datetime({ offset: true })], error), z.transform(toTime))
}

export function plural(count: number, one: string, many: string): string {
  return `${count} ${count === 1 ? one : many}`
}
