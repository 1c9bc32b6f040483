import { env } from 'cloudflare:workers'
import { describe, expect, it } from 'vitest'
import { openDatabase } from '../../../src/kernel/db/client.ts'
import { exportPage } from '../../../src/operation/copies/export.ts'
import { noise, storedObjects } from '../../resources/mail/support.ts'
import { adminCall, adminCallWith } from '../../support/admin.ts'
import { call, freshId, issuesOf, mintCompany, mintToken, sql } from '../../support/app.ts'
import { logLines } from '../../support/log.ts'
import { loseResponses } from '../../support/wrap-bindings.ts'
import { exportOf, importInto, readAll, removeThreads } from './transfer-support.ts'

describe('the email threads of an export', () => {
  it('leaves a thread alone that was written before it is imported', async () => {
    const { id, call } = await mintCompany()
    const put = (text: string) =>
      call('PUT', '/mail/email-threads/aa', { account_email: 'a@b.example', messages: [{ text }] })
    await put('exported')
    const { threads, file } = await exportOf(id)
    await removeThreads()
    await put('written')
    expect(await importInto(file, id, threads)).toEqual([false])
    const read = await call('GET', '/mail/email-threads/aa?account_email=a@b.example')
    expect(read.body.email_thread.messages).toEqual([{ text: 'written' }])
  })

  it('has content that R2 holds, which an import stores there again, also where the database’s responses are lost', async () => {
    const [{ id, token }, copy] = [await mintCompany(), 4_500 + freshId()]
    const body = { account_email: 'a@b.example', messages: [{ text: noise(2_000_000) }], snippet: 's'.repeat(100_000) }
    await call(token, 'PUT', '/mail/email-threads/aa', body)
    expect(await storedObjects(id)).toHaveLength(1)
    const { threads, file } = await exportOf(id)
    expect(JSON.parse(threads[0] ?? '').messages).toEqual(body.messages)
    await removeThreads()
    await importInto(file, copy)
    const path = `/companies/${copy}/imports/email-threads`
    expect((await adminCallWith(loseResponses(env), 'POST', path, threads[0])).body.is_new).toBe(true)
    expect(await storedObjects(copy)).toHaveLength(1)
    const response = await call(await mintToken(copy), 'GET', '/mail/email-threads/aa?account_email=a@b.example')
    expect(response.body.email_thread).toMatchObject(body)
    expect(await importInto(file, copy, threads)).toEqual([false])
    expect(await storedObjects(copy)).toHaveLength(1)
  })

  it('has threads that are refused where a field is missing or of another kind', async () => {
    const { id } = await mintCompany()
    const load = (thread: object) => adminCall('POST', `/companies/${id}/imports/email-threads`, thread)
    const paths = async (thread: object) => issuesOf(await load(thread))
    expect(await paths({})).toEqual(['account_email', 'messages'])
    const thread = { account_email: 'a@b.example', messages: [], id: 'x', legacy_thread_id: '/', deleted: 1 }
    const far = { created_at: '0000-01-01T00:00:00+01:00', updated_at: '9999-12-31T23:59:59-01:00' }
    expect(await paths({ ...thread, ...far })).toEqual(expect.arrayContaining(['created_at', 'updated_at']))
    expect(await paths(thread)).toEqual([
      ...['id', 'legacy_thread_id', 'last_synced_at', 'created_at', 'updated_at'],
      ...['deleted', 'revision', 'content_revision'],
    ])
    expect((await load(thread)).body.error.message).toMatch(/^`id` must be a UUID;/)
  })

  it('takes a thread with other forms of its times and its id, which stays one thread', async () => {
    const { id: companyId } = await mintCompany()
    const at = '2026-03-02T10:00:00+01:00'
    const times = { last_synced_at: at, created_at: at, updated_at: '2026-03-02T09:00:00Z' }
    const id = crypto.randomUUID()
    const thread = { ...times, id, legacy_thread_id: 'q1', deleted: false, revision: 1, content_revision: 1 }
    const load = (changes: object) => {
      const body = { ...thread, account_email: 'a@b.example', messages: [], ...changes }
      return adminCall('POST', `/companies/${companyId}/imports/email-threads`, body)
    }
    expect(await load({})).toMatchObject({ status: 200, body: { is_new: true } })
    expect(await load({ id: id.toUpperCase() })).toMatchObject({ status: 200, body: { is_new: false } })
    const other = await load({ id: id.toUpperCase(), legacy_thread_id: 'q2' })
    expect(other.status).toBe(409)
    expect(other.body.error.message).toContain('an email thread with this id is in the database already')
  })

  it('has a thread that was sent as indented JSON in one line, which its copy has too', async () => {
    const [{ id, token }, copy] = [await mintCompany(), 5_000 + freshId()]
    const thread = { account_email: 'a@b.example', labels: ['x'], messages: [{ text: '\r\n \t', list: [1, {}] }] }
    const text = JSON.stringify(thread, null, '\t').replaceAll('\n', '\r\n')
    expect((await call(token, 'PUT', '/mail/email-threads/aa', text)).status).toBe(200)
    const { lines, threads, file } = await exportOf(id)
    const [line = '', ...others] = lines.filter((each) => each.startsWith('{"type":"email_threads"'))
    expect([JSON.parse(line).data, others]).toMatchObject([thread, []])
    expect(line).not.toContain('\r')

    await removeThreads()
    expect(await importInto(file, copy, threads)).toEqual([true])
    expect(await readAll(copy)).toContain(line)
  })

  it.each<[string, (companyId: number) => Promise<unknown>]>([
    [
      'the database',
      (id) => sql("UPDATE email_threads SET content = NULL WHERE company_id = ? AND legacy_thread_id = 'aa'", id),
    ],
    ['R2', async (id) => env.FILES.delete(await storedObjects(id))],
  ])('has threads whose content %s lost, without messages', async (store, lose) => {
    const [company, copy] = [await mintCompany(), 5_500 + freshId()]
    const messages = { aa: [{ text: store === 'R2' ? noise(2_000_000) : 'a' }], bb: [{ text: 'b' }] }
    for (const [id, each] of Object.entries(messages)) {
      await company.call('PUT', `/mail/email-threads/${id}`, { account_email: 'a@b.example', messages: each })
    }
    await lose(company.id)
    const { threads, file } = await exportOf(company.id)
    expect(threads.map((text) => JSON.parse(text).messages)).toEqual([[], messages.bb])
    const line = { event: 'mail_content_missing', request_id: expect.any(String), company_id: company.id }
    expect(logLines).toContainEqual(expect.objectContaining(line))
    await removeThreads()
    expect(await importInto(file, copy, threads)).toEqual([true, true])
  })

  it('has a thread whose content is replaced while it is read as it was before', async () => {
    const { id, call } = await mintCompany({ home: 'DB' })
    const put = async (messages: object[]) => {
      const sent = { account_email: 'a@b.example', messages }
      expect((await call('PUT', '/mail/email-threads/aa', sent)).status).toBe(200)
    }
    const messages = [{ text: noise(2_000_000) }]
    await put(messages)
    const context = { companyId: id, db: openDatabase(env.DB) }
    const { pieces } = await exportPage(context, env.FILES, 'email_threads', [])
    // The row and its object are read by now, the content is not.
    await put([{ text: noise(2_000_100) }])
    const states = await sql('SELECT state FROM email_thread_objects WHERE company_id = ? ORDER BY state', id)
    expect(states).toEqual([{ state: 'replaced' }, { state: 'stored' }])
    const read = await Array.fromAsync(pieces, (piece) => Buffer.from(piece as Uint8Array))
    expect(JSON.parse(Buffer.concat(read).toString()).data.messages).toEqual(messages)
  })
})
