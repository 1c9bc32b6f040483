import { describe, expect, it } from 'vitest'
import { syncAttachments } from '../../src/client/index.ts'
import { mintCompany } from '../support/app.ts'
import { fetchService, openClient } from './service.ts'

/* Mail and files of the service, through the client. */

const account_email = 'orders@shop.example'

describe('a mail thread', () => {
  it('is linked, stored with its attachment, read back and deleted', async () => {
    const api = openClient(await mintCompany())
    const { id: client_id } = await api.clients.create({ company_name: 'Harbor Rowing Club' })
    const { project } = await api.orders.create({ title: 'Jerseys', client_id })
    const messages = [{ id: 'm1', attachments: [{ filename: 'crest (1).txt', mime_type: 'text/plain' }] }]
    const sync = () =>
      syncAttachments(api, {
        legacyThreadId: 't1',
        accountEmail: account_email,
        thread: { subject: 'Jerseys', messages },
        loadAttachment: () => new TextEncoder().encode('bytes ✓'),
        storeThread: 'always',
      })

    // A new mail is stored before anyone knows its order.
    expect(await sync()).toMatchObject({ status: 'skipped', reason: 'no_context', emailThread: { message_count: 1 } })
    const context = await api.mail.putThreadContext('t1', { client_id, orders_data: [{ id: project.id }] })
    expect(context).toMatchObject({ legacy_thread_id: 't1', client_id: String(client_id) })
    for (const query of [{ order_id: project.id }, { client_id }]) {
      expect((await api.mail.threadContexts.list(query)).data).toEqual([context])
    }

    const result = await sync()
    if (result.status !== 'stored') throw new Error(`The thread was skipped: ${result.reason}`)
    const [{ path } = { path: '' }] = (await api.files.list(project.id)).files
    expect(result.attachments).toMatchObject([{ status: 'uploaded', storageKey: path }])
    const download = await api.files.download(project.id, path)
    expect(download).toMatchObject({ path, objectName: 'crest (1).txt', contentType: 'text/plain', expiresIn: 600 })
    const response = await fetchService(download.downloadUrl)
    expect(await response.text()).toBe('bytes ✓')

    expect(await api.files.delete(project.id, path)).toMatchObject({ path })
    expect((await api.files.list(project.id)).files).toEqual([])
    await api.orders.delete(project.id)
    const skipped = { status: 'skipped', reason: 'order_not_found', emailThread: { message_count: 1 } }
    expect(await sync()).toMatchObject(skipped)
    await expect(api.files.download(project.id, path)).rejects.toMatchObject({ status: 404 })
    const { data } = await api.mail.emailThreads.list({ account_email })
    expect(await api.mail.deleteEmailThread('t1', { account_email })).toMatchObject({ id: data[0]?.id, deleted: true })
    await api.mail.deleteThreadContext('t1')
    await expect(api.mail.getThreadContext('t1')).rejects.toMatchObject({ status: 404 })
  })
})
