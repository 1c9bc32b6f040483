import * as z from 'zod/mini'
import { type Contract, isoTime, type ResponseBody } from '../kernel/api/contract.ts'
import { type AdminApi, AdminError, type Element, type RequestOf } from './admin-api.ts'
import {
  type Argument,
  type Arguments,
  type Command,
  CommandError,
  command,
  nameOf,
  print,
  type Values,
} from './command.ts'
import { type Connection, connect, type Target, target } from './target.ts'

/** Arguments that are named as the contract's parameters and fields are sent as those. */
interface Call<C extends Contract, A extends Arguments> {
  contract: C
  arguments: A
  /** Finds the company of what the command line only names by its id. */
  find?: Finder
  /** The error where the service responds 404, with `{name}` for an argument. */
  missing?: string
}

interface Request<C extends Contract, A extends Arguments> extends Call<C, A> {
  /** @returns why the arguments do not fit together */
  check?: (values: Values<A>) => string | false
  print: (response: ResponseBody<C>, values: Values<A>, service: Connection) => string
}

/** An action that sends one request and prints its response. */
export function request<C extends Contract, A extends Arguments>(row: Request<C, A>): Command {
  const { contract, find } = row
  return withTarget(row.arguments, async (values, to) => {
    const refusal = row.check?.(values)
    if (refusal) throw new CommandError(refusal)
    const isChange = contract.method === 'PATCH'
    if (isChange && toRequest(contract, values).body === undefined)
      throw new CommandError('There is nothing to change.')
    await using service = await connect(to)
    const found = find ? await findOne(service, find, values) : {}
    const response = await service
      .call(contract, toRequest(contract, { ...values, ...found }))
      .catch(explain(row, values))
    print(row.print(response, values, service))
  })
}

type Cell = string | number | boolean | null | readonly (string | number)[]

interface Listing<C extends Contract, A extends Arguments> extends Call<C, A> {
  /** The columns by their headings: a field of an element, or what is computed of it. */
  columns: Record<string, keyof Element<C> | ((element: Element<C>) => Cell)>
  /** How many elements are printed at most. */
  limit?: number
  /** Printed instead of an empty table. */
  empty?: string
  /** Printed after the table. */
  summary?: (elements: Element<C>[], values: Values<A>) => string | false
}

/** An action that prints a list as a table. */
export function listing<C extends Contract, A extends Arguments>(row: Listing<C, A>): Command {
  const { contract, columns, find, limit = Number.POSITIVE_INFINITY } = row
  return withTarget(row.arguments, async (values, to) => {
    await using service = await connect(to)
    const found = find ? await findOne(service, find, values) : {}
    const elements = service.list(contract, toRequest(contract, { ...values, ...found }))
    const { shown, hasMore } = await collect(elements, limit).catch(explain(row, values))
    const toCell = (element: Element<C>, column: (typeof columns)[string]) =>
      typeof column === 'function' ? column(element) : (element[column] as Cell)
    const rows = shown.map((element) => Object.values(columns).map((column) => toCell(element, column)))
    print(rows.length === 0 && row.empty ? row.empty : formatTable(Object.keys(columns), rows))
    if (hasMore) print('… and more.')
    const summary = row.summary?.(shown, values)
    if (summary) print(summary)
  })
}

/** An action of several requests. */
export function operation<A extends Arguments>(
  described: A,
  run: (service: Connection, values: Values<A>) => Promise<void>,
): Command {
  return withTarget(described, async (values, to) => {
    await using service = await connect(to)
    await run(service, values)
  })
}

const hasTarget = z.object({ target: z.custom<Target>() })

/** The arguments with a target, by default one that exists, as their last. */
function withTarget<A extends Arguments>(described: A, run: (values: Values<A>, to: Target) => Promise<void>): Command {
  const all: A & Arguments = { ...described, target: described.target ?? target() }
  return command(all, (values) => run(values, hasTarget.parse(values).target))
}

/** The request of a contract, of the values that have the names of its parameters and fields. */
function toRequest<C extends Contract>({ path, method }: C, values: Record<string, unknown>): RequestOf<C> {
  const given = Object.entries(values).filter(([name, value]) => name !== 'target' && value !== undefined)
  const isParameter = ([name]: [string, unknown]) => path.includes(`{${name}}`)
  const fields = Object.fromEntries(given.filter((each) => !isParameter(each)))
  const rest = method === 'GET' ? { query: fields } : { body: fields }
  // The service validates them.
  const request: object = { params: Object.fromEntries(given.filter(isParameter)), ...(!isEmpty(fields) && rest) }
  return request
}

function isEmpty(fields: object): boolean {
  return Object.keys(fields).length === 0
}

/** How to find the company of an id that is unique in the deployment. */
export interface Finder {
  contract: Contract
  /** The argument that has the id. */
  by: string
  /** The error where there is none, with `{name}` for an argument. */
  missing: string
}

const found = z.looseObject({ company_id: z.number() })

async function findOne(service: AdminApi, { contract, by, missing }: Finder, values: Record<string, unknown>) {
  for await (const element of service.list(contract, { query: { id: String(values[by]) } })) {
    return { company_id: found.parse(element).company_id }
  }
  throw new CommandError(fillIn(missing, values))
}

function fillIn(text: string, values: Record<string, unknown>): string {
  return text.replaceAll(/\{(\w+)\}/g, (_, name: string) => String(values[name]))
}

/** For `catch`: an error response in the words of the command line. */
function explain(row: Call<Contract, Arguments>, values: Record<string, unknown>) {
  return (error: unknown): never => {
    if (!(error instanceof AdminError)) throw error
    if (error.status === 404 && row.missing) throw new CommandError(fillIn(row.missing, values))
    const [issue] = error.issues
    const argument = issue && row.arguments[issue.path]
    if (!argument) throw error
    // An address may hold a secret.
    const value = String(values[issue.path])
    const sent = value.includes('://') ? '' : `, not '${value}'`
    throw new CommandError(`${nameOf(argument)} ${issue.message}${sent}.`)
  }
}

/** The first elements. */
export async function collect<T>(elements: AsyncIterable<T>, limit: number): Promise<{ shown: T[]; hasMore: boolean }> {
  const shown: T[] = []
  for await (const element of elements) {
    if (shown.length === limit) return { shown, hasMore: true }
    shown.push(element)
  }
  return { shown, hasMore: false }
}

/** Lines of aligned columns under their headings. Texts of somebody else and times are shortened to one line. */
export function formatTable(headings: string[], rows: readonly (readonly Cell[])[]): string {
  const lines = [headings, ...rows.map((cells) => cells.map(toText))]
  const widths = headings.map((_, column) => Math.max(...lines.map((cells) => cells[column]?.length ?? 0)))
  const align = (cells: string[]) => cells.map((cell, at) => cell.padEnd(widths[at] ?? 0)).join('  ')
  return lines.map((cells) => align(cells).trimEnd()).join('\n')
}

function toText(cell: Cell): string {
  const text = cell === null ? '-' : toLine(String(cell))
  return /^\d{4}-\d\d-\d\dT[\d:.]+Z$/.test(text) ? shortTime(text) : text
}

/** A date-time of the API without its milliseconds. */
export function shortTime(time: string): string {
  return time.replace(/\.\d+Z$/, 'Z')
}

/** Text of somebody else in one line. */
export function toLine(text: string): string {
  return text.replaceAll(/[\p{Cc}\s]+/gu, ' ').trim()
}

/** A date-time, or `dateMs` after the beginning of a date in UTC, as the API takes it. */
export function time(dateMs: number, example: string) {
  const start = (date: string) => isoTime(Date.parse(date) + dateMs)
  return z.union(
    [
      z.pipe(z.iso.date(), z.transform(start)),
      z.pipe(
        z.iso.datetime({ offset: true }),
        z.transform((text) => isoTime(Date.parse(text))),
      ),
    ],
    `must be a date (${example}) or a date-time with an offset`,
  )
}

/** Some of the given names, by default all. */
export function someOf<const T extends string>(option: string, names: readonly T[]): Argument<T[] | undefined> {
  return {
    usage: `[${option} a,b]`,
    read: (given) => {
      const chosen = given
        .at(-1)
        ?.text.split(',')
        .map((part) => part.trim())
      const unknown = chosen?.find((name) => !names.some((each) => each === name))
      if (unknown === undefined) return chosen && names.filter((name) => chosen.includes(name))
      throw new CommandError(`${option}: '${unknown}' is none of ${names.join(', ')}.`)
    },
  }
}

export function plural(count: number, one: string, many: string): string {
  return `${count} ${count === 1 ? one : many}`
}
