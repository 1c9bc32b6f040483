import { describe, expect, it } from 'vitest'
import type { PullState } from '../../src/client/index.ts'
import { mintCompany } from '../support/app.ts'
import { loseAllButEvery, openClient } from './service.ts'

/* The lists of the service, walked by the client. Half of the responses are lost. */

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
      for (let index = 0; index < 5; index += 1) ids.push((await api.clients.create({ company_name: 'Oak' })).id)
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
