import { beforeAll, describe, expect, it } from 'vitest'
import type { PullState } from '../../src/client/index.ts'
import { migrate, mintCompany } from '../support/app.ts'
import { loseAllButEvery, openClient } from './service.ts'

/* The lists of the service, walked by the client. Half of the responses are lost. */

beforeAll(migrate)

const open = async () => openClient(await mintCompany(), loseAllButEvery(2))

async function idsOf(all: AsyncIterable<{ id: number }>): Promise<number[]> {
  const ids: number[] = []
  for await (const { id } of all) ids.push(id)
  return ids
}

describe('a walk', () => {
  it.each(['id', '-id', 'updated_at', '-created_at'] as const)(
    'sorted by %s neither skips nor repeats a client, while others are created and deleted',
    async (sort) => {
      const api = await open()
      const ids: number[] = []
      for (let index = 0; index < 9; index += 1) ids.push((await api.clients.create({ company_name: 'Oak' })).id)
      const seen: number[] = []
      for await (const { data, pagination } of api.clients.pages({ sort, per_page: 2 })) {
        seen.push(...data.map(({ id }) => id))
        expect(pagination.has_more).toBe(pagination.next_cursor !== null)
        // By page numbers either of these would move the pages that follow.
        await api.clients.create({ company_name: 'Newer' })
        const [first] = seen
        if (seen.length === 2 && first !== undefined) await api.clients.update(first, { deleted: true })
      }
      expect(new Set(seen).size).toBe(seen.length)
      expect(seen.filter((id) => ids.includes(id)).sort((a, b) => a - b)).toEqual(ids)
    },
  )

  it('continues from a stored cursor, in another process', async () => {
    const shop = await mintCompany()
    const api = openClient(shop)
    for (let index = 0; index < 5; index += 1) await api.clients.create({ company_name: 'Oak' })
    const { value: first } = await api.clients.pages({ sort: 'id', per_page: 2 }).next()
    const cursor = first?.pagination.next_cursor ?? undefined
    const rest = await idsOf(openClient(shop).clients.all({ sort: 'id', per_page: 2, cursor }))
    expect(rest).toEqual((await idsOf(api.clients.all({ sort: 'id' }))).slice(2))
  })
})

describe('a pull', () => {
  it('has every part of its orders, from the lists and from the changes', async () => {
    const api = await open()
    const { id: client_id } = await api.clients.create({ company_name: 'Oak' })
    const { project } = await api.orders.create({ title: 'Caps', client_id })
    let state: PullState | undefined
    for (const title of ['Caps', 'Hats']) {
      await api.orders.update(project.id, { title })
      const seen: [title: string, company: string, lines: number, balance: number | undefined][] = []
      for await (const { orders, state: next } of api.pull(state)) {
        for (const { title, client, invoice_items, totals } of orders) {
          seen.push([title, client.company_name, invoice_items.length, totals?.balance_due])
        }
        state = next
      }
      expect(seen.at(-1)).toEqual([title, 'Oak', 0, 0])
    }
  })
})

describe('a list', () => {
  it('filters orders by several statuses, text and client, and expands them', async () => {
    const api = await open()
    const { id: client_id } = await api.clients.create({ company_name: 'Harbor Rowing Club', external_id: 'crm-1' })
    const [first, second] = await api.orderStatuses()
    const regatta = await api.orders.create({ title: 'Regatta shirts', client_id, status_id: first?.id ?? 0 })
    const caps = await api.orders.create({ title: 'Caps', client_id, status_id: second?.id ?? 0 })
    const status = [first?.id ?? 0, second?.id ?? 0]
    expect(await idsOf(api.orders.all({ status, sort: 'id' }))).toEqual([regatta.project.id, caps.project.id])
    expect(await idsOf(api.orders.all({ status: second?.id ?? 0 }))).toEqual([caps.project.id])
    expect(await idsOf(api.orders.all({ q: 'regatta' }))).toEqual([regatta.project.id])
    const { data } = await api.orders.list({ client_id, expand: ['totals', 'client'] })
    expect(data).toHaveLength(2)
    for (const order of data) {
      expect(order).toMatchObject({ totals: { balance_due: 0 }, client: { company_name: 'Harbor Rowing Club' } })
    }
    expect(await idsOf(api.clients.all({ external_id: 'crm-1' }))).toEqual([client_id])
  })

  it('shows deleted clients and those changed since a time where it is asked to', async () => {
    const api = await open()
    const kept = await api.clients.create({ company_name: 'Kept' })
    const gone = await api.clients.create({ company_name: 'Gone' })
    await api.clients.update(gone.id, { deleted: true })
    expect(await idsOf(api.clients.all())).toEqual([kept.id])
    expect(await idsOf(api.clients.all({ deleted: 'only' }))).toEqual([gone.id])
    expect(await idsOf(api.clients.all({ deleted: 'include', sort: 'id' }))).toEqual([kept.id, gone.id])
    const later = new Date(Date.parse(gone.updated_at) + 60_000).toISOString()
    expect(await idsOf(api.clients.all({ updated_since: kept.created_at, sort: 'id' }))).toEqual([kept.id])
    expect(await idsOf(api.clients.all({ updated_since: later }))).toEqual([])
  })
})
