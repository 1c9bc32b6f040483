import { describe, expect, it } from 'vitest'
import { clientWith, headersOf, openCrm } from './support.ts'

const seed = { clients: [{ id: 1, company_name: 'Oak' }] }

describe('the bookmark', () => {
  it('of the last response is sent with the next request', async () => {
    const { api, ...crm } = await openCrm(seed)
    await api.clients.list()
    await api.clients.create({ company_name: 'Elm' })
    await api.clients.list()
    expect(await headersOf(crm, 'x-bookmark')).toEqual([undefined, '00000000', '00000001'])
  })

  it('of an error response is sent too, and a response without one does not replace it', async () => {
    const { api, ...crm } = await openCrm(seed)
    await api.clients.create({ company_name: 'Elm' })
    await crm.spoil({ status: 404 })
    await api.clients.get(9).catch(() => {})
    await api.clients.get(9).catch(() => {})
    await api.clients.list()
    expect(await headersOf(crm, 'x-bookmark')).toEqual([undefined, '00000001', '00000001', '00000001'])
  })

  it('that is followed is sent unless a response had a newer one', async () => {
    const { api, ...crm } = await openCrm(seed)
    api.follow(null)
    api.follow('00000007')
    await crm.seed({ changes: 9 })
    await api.clients.list()
    api.follow('00000008')
    await api.clients.list()
    expect(await headersOf(crm, 'x-bookmark')).toEqual(['00000007', '00000009'])
  })

  it('is replaced by a smaller one after a restore of the database', async () => {
    const { api, ...crm } = await openCrm(seed)
    await crm.seed({ changes: 50 })
    await api.clients.list()
    await crm.seed({ changes: 3 })
    await api.clients.list()
    await api.clients.list()
    expect(await headersOf(crm, 'x-bookmark')).toEqual([undefined, '00000050', '00000003'])
  })

  it('of a write is not replaced by that of an older read which ends later', async () => {
    const responses = new Map<string, (bookmark: string) => void>()
    const sent: (string | null)[] = []
    const api = clientWith((_url, init) => {
      sent.push(new Headers(init.headers).get('x-bookmark'))
      return new Promise((resolve) => {
        const body = { data: [], pagination: {}, client: {} }
        const respond = (bookmark: string) => resolve(Response.json(body, { headers: { 'x-bookmark': bookmark } }))
        responses.set(init.method ?? '', respond)
      })
    })
    const read = api.clients.list()
    const write = api.clients.create({ company_name: 'Elm' })
    responses.get('POST')?.('0000-0006')
    await write
    responses.get('GET')?.('0000-0005')
    await read
    void api.clients.list()
    expect(sent).toEqual([null, null, '0000-0006'])
  })
})
