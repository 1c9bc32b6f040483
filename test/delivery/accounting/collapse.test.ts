import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { type OpenEvent, type Operation, planOrder, type Remote } from '../../../src/delivery/accounting/decisions.ts'

/** `c`, `u`, `d` for the operation; then nothing for pending, `!` sent, `p` parked, `x` dead. Ids count from 1. */
function read(rows: string): OpenEvent[] {
  const operations: Record<string, Operation> = { c: 'create', u: 'update', d: 'delete' }
  const states: Record<string, OpenEvent['state']> = { '': 'pending', '!': 'sent', p: 'parked', x: 'dead' }
  return [...rows.matchAll(/([cud])([!px]?)/g)].map(([, operation = '', state = ''], index) => ({
    id: index + 1,
    operation: operations[operation] ?? 'update',
    state: states[state] ?? 'pending',
  }))
}

describe('planOrder', () => {
  it.each<[string, Remote, string, number[], isDeleted?: boolean]>([
    ['', 'absent', 'nothing', []],
    ['c', 'absent', '1 create', []],
    ['u', 'linked', '1 update', []],
    ['u', 'absent', '1 create', []],
    ['c', 'linked', '1 update', []],
    ['c u u', 'absent', '1 create', [2, 3]],
    ['u u u', 'linked', '1 update', [2, 3]],
    ['c u d', 'absent', 'nothing', [1, 2, 3]],
    ['d', 'absent', 'nothing', [1]],
    ['d', 'linked', '1 delete', []],
    ['d', 'unknown', '1 delete, find first', []],
    ['u d', 'linked', '2 delete', [1]],
    ['c! u u', 'absent', '1 create', [3]],
    ['c! u d', 'absent', '1 create', [2]],
    ['u! u d', 'linked', '1 update', [2]],
    ['cx', 'absent', 'nothing', []],
    ['cx u', 'absent', '2 create', [1]],
    ['cx u', 'unknown', '2 create, find first', [1]],
    ['up u', 'linked', '2 update', [1]],
    ['u up', 'linked', '1 update', [2]],
    ['cx d', 'absent', 'nothing', [1, 2]],
    ['ux d', 'linked', '2 delete', [1]],
    ['u dx', 'linked', '2 delete', [1]],
    ['dx', 'linked', 'nothing', []],
    ['d!', 'linked', '1 delete', []],
    ['d u', 'linked', '1 update', [2]],
    ['d u', 'absent', '1 create', [2]],
    ['d! u', 'linked', '1 delete', []],
    ['dx u', 'linked', '2 update', [1]],
    ['d u d', 'linked', '3 delete', [1, 2]],
    // Deleted or restored without a row, since the accounting system was to be left as it is.
    ['c u', 'absent', 'nothing', [1, 2], true],
    ['cx u', 'unknown', 'nothing', [1, 2], true],
    ['u', 'linked', '1 update', [], true],
    ['d', 'linked', '1 update', [], false],
    ['u d', 'linked', '1 update', [2], false],
    ['u! d', 'linked', '1 update', [], false],
  ])('plans the rows `%s` of a remote that is %s as: %s, drops %o', (rows, remote, expected, dropped, isDeleted) => {
    const plan = planOrder(read(rows), remote, isDeleted)
    const next = plan.next
      ? `${plan.next.id} ${plan.next.operation}${plan.next.findFirst ? ', find first' : ''}`
      : 'nothing'
    expect(next).toBe(expected)
    expect(plan.dropped.toSorted()).toEqual(dropped)
  })

  const row = fc.record({
    operation: fc.constantFrom<Operation>('create', 'update', 'delete'),
    state: fc.constantFrom<OpenEvent['state']>('pending', 'sent', 'parked', 'dead'),
  })
  const rowsOf = fc.array(row, { maxLength: 12 }).map((rows) => rows.map((each, index) => ({ id: index + 1, ...each })))
  const remotes = fc.constantFrom<Remote>('linked', 'absent', 'unknown')
  const forAnyQueue = (check: (rows: OpenEvent[], remote: Remote) => void) =>
    fc.assert(fc.property(rowsOf, remotes, check))

  it('never drops or changes a row that is under way, and sends none before it', () => {
    forAnyQueue((rows, remote) => {
      const { next, dropped } = planOrder(rows, remote)
      const sent = rows.filter((each) => each.state === 'sent')
      for (const each of sent) expect(dropped).not.toContain(each.id)
      if (sent[0]) expect(next).toEqual({ id: sent[0].id, operation: sent[0].operation, findFirst: false })
    })
  })

  it('never creates an invoice that exists, and never updates or removes one that does not', () => {
    forAnyQueue((rows, remote) => {
      const { next } = planOrder(
        rows.filter((each) => each.state !== 'sent'),
        remote,
      )
      if (remote === 'linked') expect(next?.operation).not.toBe('create')
      if (remote === 'absent' && next) expect(next.operation).toBe('create')
    })
  })

  it('leaves nothing pending behind', () => {
    forAnyQueue((rows, remote) => {
      let open = rows.filter((each) => each.state !== 'sent')
      const { next, dropped } = planOrder(open, remote)
      open = open.filter((each) => !dropped.includes(each.id) && each.id !== next?.id)
      expect(open.filter((each) => each.state === 'pending')).toEqual([])
    })
  })
})
