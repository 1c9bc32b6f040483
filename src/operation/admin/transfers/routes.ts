import { isoTime } from '../../../kernel/api/contract.ts'
import { cursorScope, readCursor, writeCursor } from '../../../kernel/api/paging.ts'
import { adminEntry } from '../../../kernel/db/audit.ts'
import type { CursorPosition } from '../../../kernel/db/lists.ts'
import { syncDirectory } from '../../../kernel/db/placement.ts'
import { fairShare, LONGEST_WAIT_MS } from '../../../kernel/gate/limits.ts'
import { conflict, found, invalid } from '../../../kernel/http/errors.ts'
import { BUDGET_MS, bodyBudgetMs, log, nameOf, pause, withDeadline } from '../../../kernel/http/isolate.ts'
import { importThread } from '../../../resources/mail/threads.ts'
import { exportPage, line, SECTIONS } from '../../copies/export.ts'
import { BEING_RESTORED, isEmpty } from '../../copies/restore.ts'
import { findAddressIssues } from '../../copies/seed/integrations-file.ts'
import { countFile, planLoad, throwConflict } from '../../copies/seed/load.ts'
import type { AdminContext } from '../context.ts'
import { adminRoute } from '../endpoint.ts'
import { checkKnown } from '../queries.ts'
import * as contract from './contract.ts'
import { findImport, hasCompany, loadPart } from './queries.ts'

/** Limits the rows of one part: a larger transaction would block other writes. An order may have more. */
const MAX_ROWS = 1_000

/** Limits one response, since a Worker may make 1,000 queries and use 30 s of CPU. The next request continues. */
const MAX_PAGES = 60
const MAX_BYTES = 64_000_000
const WRITTEN_BYTES = 65_536

const HEADERS = { 'Content-Type': 'application/x-ndjson', 'Cache-Control': 'private, no-store' }

const encoder = new TextEncoder()

export const routes = [
  adminRoute(contract.createImport, async ({ body }, context) => {
    const { hash, part, parts, check, into_empty, known, file } = body
    if (file.company.id !== context.companyId) {
      throw invalid([{ path: 'file.company.id', message: 'must be the company of the path' }])
    }
    const counts = countFile(file)
    const limited = file.orders.length === 1 ? countFile({ ...file, orders: [] }) : counts
    const rows = Object.values(limited).reduce((sum, count) => sum + count, 0)
    if (rows > MAX_ROWS) throw invalid([{ path: 'file', message: `must have at most ${MAX_ROWS} rows, not ${rows}` }])
    const issues = findAddressIssues(file.integrations, context.addresses())
    if (issues.length > 0) throw invalid(issues.map((issue) => ({ ...issue, path: `file.integrations.${issue.path}` })))
    const before = await findImport(context, hash)
    // A company that its database has lost would be served as one without data.
    if (!before && (await checkKnown(context)) && !into_empty && !(await hasCompany(context))) {
      throw conflict(`${context.database} has lost company ${context.companyId}: restore it`)
    }
    if (into_empty && !before && !(await isEmpty(context))) {
      throw conflict(`Company ${context.companyId} is not empty: import into a new one`)
    }
    if (!check && part > 1) {
      if (before && before.parts !== parts) {
        throw conflict(`This import has ${before.parts} parts: send it again from part 1`)
      }
      const next = before?.next_part ?? 1
      if (part > next) throw conflict(`Part ${next} is not loaded yet: send it first`)
    }
    const plan = await planLoad(context, file, check ? known : {})
    if (plan.issues.length > 0) throw invalid(plan.issues.map((message) => ({ path: 'file', message })))
    if (plan.conflict !== undefined) throw conflict(plan.conflict)
    if (!check) {
      // Of two rows with one id, that of the file would stay.
      const isRestoring = await context.env.COMPANY_BACKUP.getByName(String(context.companyId)).isRestoring()
      if (isRestoring) throw conflict(BEING_RESTORED)
      const hasRows = Object.keys(counts).some((name) => name !== 'integrations')
      await loadPart(context, body, plan.statements, hasRows).catch(throwConflict)
      await syncDirectory(context, Object.keys(file.company))
      // Another account deletes the links to customers: not those that are made from now on.
      if (file.integrations.accounting_sync) context.deliverAccounting()
    }
    const next_part = part === parts ? null : part + 1
    return { hash, part, parts, next_part, counts, differences: plan.differences }
  }),

  adminRoute(contract.importEmailThread, ({ body }, context) => {
    return importThread(context, context.env.FILES, body).catch(throwConflict)
  }),

  adminRoute(contract.readImport, async ({ params: { hash } }, context) => {
    const { parts, next_part, updated_at } = found(await findImport(context, hash), 'Import')
    return { hash, parts, next_part: next_part > parts ? null : next_part, updated_at: isoTime(updated_at) }
  }),

  adminRoute(contract.exportCompany, async ({ query: { cursor } }, context) => {
    const position = cursor === undefined ? [] : readCursor(cursorScope(contract.exportCompany, context), cursor)
    if (context.isHead) return new Response(null, { headers: HEADERS })
    await context.directory.write([adminEntry(context, 'companies.export', context.companyId)])
    // A write to the runtime's own stream resolves when the caller has read the piece.
    const { readable, writable } = new IdentityTransformStream()
    context.waitUntil(send(context, writable.getWriter(), position))
    return new Response(readable, { headers: HEADERS })
  }),
]

/** Writes an export page by page. A failure aborts the stream, so that the last line is missing. */
async function send(
  context: AdminContext,
  writer: WritableStreamDefaultWriter<Uint8Array>,
  [first = 0, ...rest]: CursorPosition,
): Promise<void> {
  const write = async (piece: string | Uint8Array) => {
    const bytes = typeof piece === 'string' ? encoder.encode(piece) : piece
    // A slow caller has the time of a whole deadline for each part.
    for (let at = 0; at < bytes.length; at += WRITTEN_BYTES) {
      const part = bytes.subarray(at, at + WRITTEN_BYTES)
      await withDeadline(writer.write(part), bodyBudgetMs(part.length))
    }
    return bytes.length
  }
  try {
    let [section, after, bytes]: [number, CursorPosition, number] = [Number(first), rest, 0]
    for (let page = 0; page < MAX_PAGES && bytes < MAX_BYTES && section < SECTIONS.length; page++) {
      const { next, pieces } = await exportPage(context, context.env.FILES, SECTIONS[section] ?? 'company', after)
      const before = bytes
      for await (const piece of pieces) bytes += await write(piece)
      // It takes no more than its company's share from the requests of others.
      await pause(fairShare.enter(context.companyId, bytes - before, performance.now()) ?? LONGEST_WAIT_MS)
      if (next === null) section += 1
      after = next ?? []
    }
    const cursor = writeCursor(cursorScope(contract.exportCompany, context), [section, ...after])
    await write(section < SECTIONS.length ? line('next', { cursor }) : line('end', {}))
    await withDeadline(writer.close(), BUDGET_MS.body)
  } catch (error) {
    void writer.abort(error).catch(() => undefined)
    log('export_failed', { request_id: context.requestId, reason: nameOf(error) })
  }
}
