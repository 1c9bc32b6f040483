import type { AccountingAdapter, Tokens } from '../../../src/delivery/accounting/adapter.ts'
import {
  classify,
  type Decision,
  decide,
  isOurInvoice,
  type OpenEvent,
  type Operation,
  planOrder,
  type Remote,
} from '../../../src/delivery/accounting/decisions.ts'
import {
  buildCreateCall,
  buildRemoveCall,
  buildUpdateCall,
  type InvoiceCall,
  type InvoiceKey,
  type InvoiceSource,
} from '../../../src/delivery/accounting/invoice-payload.ts'
import { AccountingError } from '../../../src/delivery/accounting/transport.ts'
import { World } from './support.ts'

class Crash extends Error {}

interface Row extends OpenEvent {
  orderId: number
  requestId: string
  call: string
  attempts: number
  staleAttempts: number
  notBeforeMs: number
  readFirst: boolean
}

export interface Order {
  id: number
  source: InvoiceSource
  deleted: boolean
  link: InvoiceKey | null
  remote: Remote
}

/**
 * An outbox of the simplest kind, to run the pure parts and the adapter against the simulator: `orders`,
 * `rows`, `customers` and `tokens` count as stored, everything else is lost when it crashes.
 */
export class Outbox {
  readonly world = new World()
  readonly orders: Order[] = []
  rows: Row[] = []
  readonly customers = new Map<string, string>()
  tokens: Tokens = this.world.firstTokens()
  nowMs = Date.now()
  pausedUntilMs = 0
  stopped = false
  crashChance = 0
  readonly random: () => number
  private adapter: AccountingAdapter
  private nextRow = 1
  private nextRequest = 1

  constructor(random: () => number) {
    this.random = random
    this.adapter = this.start()
  }

  /** A new process: memory is empty. */
  start(): AccountingAdapter {
    this.adapter = this.world.connect({
      tokens: this.tokens,
      saveTokens: async (tokens) => {
        this.tokens = tokens
      },
    })
    return this.adapter
  }

  notify(order: Order, operation: Operation): void {
    this.rows.push({
      id: this.nextRow++,
      orderId: order.id,
      operation,
      state: 'pending',
      requestId: '',
      call: '',
      attempts: 0,
      staleAttempts: 0,
      notBeforeMs: 0,
      readFirst: false,
    })
  }

  /** One round over all orders. */
  async sweep(): Promise<void> {
    for (const order of this.orders) {
      if (this.stopped || this.pausedUntilMs > this.nowMs) return
      try {
        await this.deliver(order)
      } catch (error) {
        if (!(error instanceof Crash)) throw error
        this.start()
      }
    }
  }

  private async deliver(order: Order): Promise<void> {
    const { next, dropped } = planOrder(
      this.rows.filter((row) => row.orderId === order.id),
      order.remote,
    )
    this.rows = this.rows.filter((row) => !dropped.includes(row.id))
    const row = this.rows.find((each) => each.id === next?.id)
    if (!next || !row || row.notBeforeMs > this.nowMs) return
    try {
      if (row.state !== 'sent' && !(await this.freeze(order, row, next.operation, next.findFirst))) {
        return this.finish(row)
      }
      const call: InvoiceCall = JSON.parse(row.call)
      row.attempts += 1
      this.crashSometimes()
      const key = await this.adapter.sendInvoice(call, row.requestId)
      this.crashSometimes()
      order.link = row.operation === 'delete' ? null : key
      order.remote = row.operation === 'delete' ? 'absent' : 'linked'
      this.finish(row)
    } catch (error) {
      if (!(error instanceof AccountingError)) throw error
      const failure = classify(error.failure)
      if (failure === 'stale') row.staleAttempts += 1
      const { operation, attempts, staleAttempts } = row
      const situation = { operation, attempts, staleAttempts }
      await this.obey(order, row, decide(failure, { ...situation, nowMs: this.nowMs, random: this.random() }))
    }
  }

  /** Fixes the body of a row; false when there is nothing to deliver. */
  private async freeze(order: Order, row: Row, asked: Operation, findFirst: boolean): Promise<boolean> {
    let operation = asked
    const { company_name: displayName, email } = order.source.client
    const customerId =
      this.customers.get(displayName) ?? (await this.adapter.findOrCreateCustomer(displayName, email, this.makeId()))
    this.customers.set(displayName, customerId)
    const references = { customerId, itemId: '1', taxCodeId: null }
    const create = buildCreateCall(order.source, references)
    if (findFirst) {
      const found = await this.findOurs(order.source.invoice.number, create)
      if (!found && asked === 'delete') return false
      if (found) {
        order.link = found
        order.remote = 'linked'
        operation = asked === 'delete' ? 'delete' : 'update'
      }
    }
    if (row.readFirst && order.link) {
      const { Id, SyncToken } = await this.adapter.readInvoice(order.link.Id)
      order.link = { Id, SyncToken }
    }
    const { link } = order
    const change = !link || operation === 'create' ? create : null
    const other = link && (operation === 'delete' ? buildRemoveCall(link, 'void') : null)
    const call = change ?? other ?? (link && buildUpdateCall(order.source, references, link))
    row.call = JSON.stringify(call)
    row.requestId = this.makeId()
    row.operation = operation
    row.state = 'sent'
    row.readFirst = false
    return true
  }

  private async obey(order: Order, row: Row, decision: Decision): Promise<void> {
    switch (decision.action) {
      case 'done':
        order.link = null
        order.remote = 'absent'
        return this.finish(row)
      case 'retry':
        row.notBeforeMs = decision.atMs
        return
      case 'pause_company':
        row.attempts -= 1
        this.pausedUntilMs = decision.untilMs
        return
      case 'stop_company':
        this.stopped = true
        return
      case 'merge':
        row.state = 'pending'
        row.readFirst = true
        return
      case 'adopt':
        order.remote = 'unknown'
        row.state = 'pending'
        return
      case 'park':
      case 'dead':
        if (row.state === 'sent' && row.operation === 'create') order.remote = 'unknown'
        row.state = decision.action === 'park' ? 'parked' : 'dead'
    }
  }

  private async findOurs(number: string, create: InvoiceCall): Promise<InvoiceKey | null> {
    const found = await this.adapter.findInvoices(number)
    const ours = found.find((each) => isOurInvoice(each, create.operation === 'create' ? create.body : {}))
    return ours ? { Id: ours.Id, SyncToken: ours.SyncToken } : null
  }

  private finish(row: Row): void {
    this.rows = this.rows.filter((each) => each !== row)
  }

  private crashSometimes(): void {
    if (this.random() < this.crashChance) throw new Crash()
  }

  private makeId(): string {
    return `r-${this.nextRequest++}`
  }
}
