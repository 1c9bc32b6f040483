import { describe, expect, it } from 'vitest'
import { chooseDelayMs, describeRetryRules, RETRY_RULES } from '../../src/client/errors.ts'
import { ApiError } from '../../src/client/index.ts'
import readme from '../../src/client/README.md?raw'
import document from '../../src/site/reference/openapi.json'

const rules = describeRetryRules()

describe('the rules', () => {
  it('are published in the description and in the README of the client, word by word', () => {
    expect(document.info.description).toContain(rules)
    expect(readme).toContain(rules)
  })

  it('name every status and reason that they are about', () => {
    const lines = rules.split('\n').filter((line) => line.startsWith('- '))
    for (const [index, { statuses, reasons = [] }] of RETRY_RULES.entries()) {
      for (const status of statuses)
        expect(lines[index]).toContain(status === 0 ? 'no complete response' : `**${status}**`)
      for (const reason of reasons) expect(lines[index]).toContain(`\`${reason}\``)
    }
  })

  it.each([
    [0, null, null, 125, null],
    [429, null, 7, 7000, 7000],
    [429, null, null, 125, 125],
    [429, null, 121, null, null],
    [429, null, 9_999_999_999, null, null],
    [503, null, 2, 2000, 2000],
    [503, null, null, 125, null],
    [503, null, 0, 125, 125],
    [409, 'idempotency_key_in_use', 1, 1000, 1000],
    [409, 'integration_missing', 1, null, null],
    [500, null, null, 125, null],
    [502, null, null, 125, null],
    [502, 'supplier_unavailable', null, 125, null],
    [502, 'supplier_rejected_credentials', null, null, null],
    [409, 'credentials_unreadable', null, null, null],
    [504, null, null, 125, null],
    [520, null, null, 125, null],
    [530, null, 3, 3000, null],
    [408, null, null, 125, null],
    [200, null, null, null, null],
    [400, null, 1, null, null],
    [412, 'version_mismatch', null, null, null],
    [410, 'cursor_expired', null, null, null],
  ])(
    'for %i with reason %j and Retry-After %j choose a delay of %j ms, and for a PUT with a condition %j',
    (status, reason, retryAfterSeconds, delayMs, ofConditionalPut) => {
      const error = new ApiError({ status, code: 'x', message: 'x', details: { reason }, retryAfterSeconds })
      expect(chooseDelayMs(error, 0, 0)).toBe(delayMs)
      expect(chooseDelayMs(error, 0, 0, { isUnrepeatable: true })).toBe(ofConditionalPut)
    },
  )

  it('wait at most two minutes, and always, for a call without an end', () => {
    const error = new ApiError({ status: 503, code: 'x', message: 'x', retryAfterSeconds: 999_999_999 })
    expect(chooseDelayMs(error, 0, 0, { isEndless: true })).toBe(120_000)
  })

  it.each([
    [0, 0, 125],
    [0, 0.999, 250],
    [3, 0, 1000],
    [5, 0, 4000],
    [50, 0, 4000],
    [50, 1, 8000],
  ])('double the delay with retry %i, at random %d: %d ms', (retries, random, delayMs) => {
    expect(chooseDelayMs(new ApiError({ status: 0, code: 'x', message: 'x' }), retries, random)).toBe(delayMs)
  })
})
