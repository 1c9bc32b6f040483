import { isoTime } from '../http/time.ts'
import type { Random } from './random.ts'
import type { SampleClient, SampleOrder } from './sample-company.ts'
import { SAMPLE_COMPANY } from './sample-data.ts'
import type { SeedInput } from './seed-file.ts'

type ThreadContext = NonNullable<SeedInput['thread_contexts']>[number]

/** How many orders each thread knows, and whether one of them is selected. */
const SHAPES: [orders: number, isSelected: boolean][] = [
  [1, false],
  [1, false],
  [1, false],
  [1, true],
  [1, true],
  [2, false],
  [2, true],
  [3, false],
  [3, true],
  [4, true],
  [0, false],
  [0, false],
]

const HOUR_MS = 3_600_000

/** A dozen links between mail threads and the CRM: one order, several with and without a selected one, none. */
export function sampleThreadContexts(
  random: Random,
  clients: SampleClient[],
  orders: SampleOrder[],
  now: number,
): ThreadContext[] {
  const reachable = clients.filter(({ email }) => typeof email === 'string')
  return SHAPES.map(([count, isSelected], index) => {
    const candidates = reachable.filter(({ id }) => orders.filter((order) => order.client_id === id).length >= count)
    const client = random.pick(candidates)
    const own = orders.filter((order) => order.client_id === client.id)
    const known = own.slice(own.length - count)
    const legacyId = `19${random.hex(14)}`
    const fetched = isoTime(now - (index + 1) * 7 * HOUR_MS)
    return {
      thread_id: `thread-f:${BigInt(`0x${legacyId}`)}`,
      legacy_thread_id: legacyId,
      sender_email: client.email ?? null,
      client_id: String(client.id),
      client_data: { ...describeClient(client), company_id: SAMPLE_COMPANY.id },
      clients_data: [describeClient(client)],
      orders_data: known.map(({ id, title, order_status_id, deadline }) => ({
        id,
        title,
        order_status_id: order_status_id ?? null,
        deadline: deadline ?? null,
      })),
      selected_order_id: isSelected ? String(known.at(-1)?.id) : null,
      participant_emails: [client.email ?? '', 'orders@ridgeline.example'],
      participants_data: [
        { name: `${client.first_name} ${client.last_name}`, email: client.email ?? null },
        { name: SAMPLE_COMPANY.name, email: 'orders@ridgeline.example' },
      ],
      fetched_at: fetched,
      updated_at: fetched,
    }
  })
}

function describeClient({ id, company_name, first_name, last_name, email }: SampleClient) {
  return { id, company_name, first_name: first_name ?? null, last_name: last_name ?? null, email: email ?? null }
}
