import { readCursor, writeCursor } from '../../../kernel/api/paging.ts'
import { adminEntry } from '../../../kernel/db/audit.ts'
import type { CursorPosition } from '../../../kernel/db/lists.ts'
import { BUDGET_MS, bodyBudgetMs, withDeadline } from '../../../kernel/http/deadline.ts'
import { log, nameOf } from '../../../kernel/http/errors.ts'
import { exportPage, line, SECTIONS } from '../../copies/export.ts'
import type { AdminContext } from '../context.ts'
import { adminRoute } from '../endpoint.ts'
import { cursorScope } from '../paging.ts'
import * as contract from './contract.ts'

/** Limits one response, since a Worker may make 1,000 queries and use 30 s of CPU. The next request continues. */
const MAX_PAGES = 60
const MAX_BYTES = 64_000_000

const HEADERS = { 'Content-Type': 'application/x-ndjson', 'Cache-Control': 'private, no-store' }

const encoder = new TextEncoder()

export const routes = [
  adminRoute(contract.exportCompany, async ({ query: { cursor } }, context) => {
    const [section = 0, ...after] =
      cursor === undefined ? [] : readCursor(cursorScope(contract.exportCompany, context), cursor)
    const started = adminEntry(context, 'companies.export', context.companyId)
    if (cursor === undefined) await context.directory.write([started])
    // A write to the runtime's own stream resolves when the caller has read the piece.
    const { readable, writable } = new IdentityTransformStream()
    context.waitUntil(send(context, writable.getWriter(), Number(section), after))
    return new Response(readable, { headers: HEADERS })
  }),
]

/** Writes an export page by page. A failure aborts the stream, so that the last line is missing. */
async function send(
  context: AdminContext,
  writer: WritableStreamDefaultWriter<Uint8Array>,
  firstSection: number,
  firstPlace: CursorPosition,
): Promise<void> {
  const write = async (piece: string | Uint8Array) => {
    const bytes = typeof piece === 'string' ? encoder.encode(piece) : piece
    await withDeadline(writer.write(bytes), bodyBudgetMs(bytes.length))
    return bytes.length
  }
  try {
    let [section, after, bytes] = [firstSection, firstPlace, 0]
    for (let page = 0; page < MAX_PAGES && bytes < MAX_BYTES && section < SECTIONS.length; page++) {
      const { next, pieces } = await exportPage(context, context.env.FILES, SECTIONS[section] ?? 'company', after)
      for await (const piece of joined(pieces)) bytes += await write(piece)
      if (next === null) section += 1
      after = next ?? []
    }
    const isComplete = section >= SECTIONS.length
    const next = isComplete
      ? line('end', {})
      : line('next', { cursor: writeCursor(cursorScope(contract.exportCompany, context), [section, ...after]) })
    await write(next)
    await withDeadline(writer.close(), BUDGET_MS.body)
  } catch (error) {
    void writer.abort(error).catch(() => undefined)
    log('export_failed', { request_id: context.requestId, reason: nameOf(error) })
  }
}

/** Joins pieces, since each write waits for the caller. */
async function* joined(pieces: AsyncIterable<string | Uint8Array> | Iterable<string | Uint8Array>) {
  let text = ''
  for await (const piece of pieces) {
    if (typeof piece === 'string') text += piece
    else {
      if (text !== '') yield text
      text = ''
      yield piece
    }
    if (text.length < 65_536) continue
    yield text
    text = ''
  }
  if (text !== '') yield text
}
