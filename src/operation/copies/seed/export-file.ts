import type { SeedInput } from './file.ts'

/** Lists that an export and a seed file have in common. */
const LISTS = ['order_statuses', 'taxes', 'clients', 'orders', 'catalog_items', 'thread_contexts'] as const

const THREAD = '{"type":"email_threads","data":'

/**
 * Reads the lines of an export: its responses one after the other.
 *
 * @returns a seed file without the integrations, whose credentials an export does not have, and the JSON of each email
 *   thread
 * @throws RangeError for lines that are no complete export
 */
export async function readExport(lines: AsyncIterable<string> | Iterable<string>) {
  const file: Record<string, unknown[]> = Object.fromEntries(LISTS.map((name) => [name, []]))
  const threads: string[] = []
  let company: SeedInput['company'] | undefined
  let last = ''
  for await (const text of lines) {
    if (text.trim() === '') continue
    if (text.startsWith(THREAD)) threads.push(text.trimEnd().slice(THREAD.length, -1))
    else {
      const { type, data } = JSON.parse(text)
      last = type
      if (type === 'company') company = data
      else file[type]?.push(data)
    }
  }
  if (!company || last !== 'end')
    throw new RangeError('the export is incomplete: its first line is `company`, its last `end`')
  return { file: { company, ...file } as SeedInput, threads }
}
