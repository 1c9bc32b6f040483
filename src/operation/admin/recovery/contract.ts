import * as z from 'zod/mini'
import { component, cursorText, date, dateTime, defineContract, idText } from '../../../kernel/api/contract.ts'

const company_id = idText.check(z.describe('The company.'))
const count = z.int().check(z.minimum(0))
const accounting = z
  .enum(['none', 'read', 'failed'])
  .check(
    z.describe(
      'Whether the accounting system was asked for its last invoice number; `none` where it is not connected or not yet asked.',
    ),
  )

const common = { tag: 'Recovery', permission: null, role: 'operator' } as const

export const listBackups = defineContract({
  ...common,
  method: 'GET',
  path: '/companies/{company_id}/backups',
  operationId: 'listBackups',
  params: z.strictObject({ company_id }),
  response: component('Backups', 'The backups of a company, the oldest first.', {
    data: z.array(
      component('Backup', 'A backup that can be restored.', {
        at: dateTime.check(z.describe('When it began.')),
        kind: z.enum(['full', 'increment']),
      }),
    ),
  }),
  createsCompany: true,
  errors: [],
})

export const restoreCompany = defineContract({
  ...common,
  method: 'POST',
  path: '/companies/{company_id}/restore',
  operationId: 'restoreCompany',
  params: z.strictObject({ company_id }),
  body: component('RestoreInput', 'Which state of the company.', {
    from: z
      .union([date, z.iso.datetime({ error: 'must be a date or a time in UTC' })])
      .check(z.describe('The newest backup that began until the end of this day (UTC), or until this time.')),
  }),
  response: component('RestoreProgress', 'How far a restore has come.', {
    done: z.boolean().check(z.describe('Whether that was all. Repeat the request until it was.')),
    backup: dateTime.check(z.describe('When the backup began that is restored.')),
    step: z.string().check(z.describe('What is being restored.')),
    rows: count.check(z.describe('Rows read of the backups so far.')),
    differences: z
      .array(
        component('RestoreDifference', 'A table with another number of rows.', {
          table: z.string(),
          expected: count,
          found: count,
        }),
      )
      .check(
        z.describe(
          'At the end: tables that have not as many rows as when the backup ended. Those that were written while it ran are here too.',
        ),
      ),
    accounting,
  }),
  createsCompany: true,
  errors: ['not_found', 'conflict'],
})

export const recoverDeployment = defineContract({
  ...common,
  method: 'POST',
  path: '/recovery',
  operationId: 'recoverDeployment',
  body: component('RecoveryInput', 'Where to go on.', {
    cursor: z
      .optional(cursorText)
      .check(z.describe('The `next_cursor` of the last response. Without one it begins anew.')),
  }),
  response: component('RecoveryProgress', 'What a step of a recovery did.', {
    companies_paused: count.check(z.describe('Companies whose deliveries were paused by this step.')),
    tokens_revoked: count.check(z.describe('Tokens that were revoked again by this step.')),
    company: z.nullable(
      component('RecoveredCompany', 'A company that is done, and what it has given out by now.', {
        id: z.int().check(z.positive()),
        last_client_id: count,
        last_order_id: count,
        last_invoice_id: count,
        last_invoice_number: count,
        last_payment_id: count,
        last_change: count,
        accounting,
      }),
    ),
    next_cursor: z.nullable(z.string()).check(z.describe('Null when that was all.')),
  }),
  errors: [],
})

export const endpoints = [listBackups, restoreCompany, recoverDeployment]
