import fc from 'fast-check'
import { expect, it } from 'vitest'
import { parseDateTime } from '../../../src/resources/mail/thread-input.ts'

it.each([
  ['2026-03-02t09:30:00z', '2026-03-02T09:30:00.000Z'],
  ['2026-03-02T09:30Z', '2026-03-02T09:30:00.000Z'],
  ['2026-03-02T09:30:00.1Z', '2026-03-02T09:30:00.100Z'],
  ['2026-03-02T09:30:00,25Z', '2026-03-02T09:30:00.250Z'],
  ['2026-03-02T09:30:00.123999999Z', '2026-03-02T09:30:00.123Z'],
  ['2026-03-02T09:30:00+02:00', '2026-03-02T07:30:00.000Z'],
  ['2026-03-02T09:30:00-0530', '2026-03-02T15:00:00.000Z'],
  ['2026-03-02T09:30:00+02', '2026-03-02T07:30:00.000Z'],
  ['2026-03-02T09:30:00-00:00', '2026-03-02T09:30:00.000Z'],
  ['2026-01-01T00:30:00+01:00', '2025-12-31T23:30:00.000Z'],
  ['2024-02-29T23:59:59.999Z', '2024-02-29T23:59:59.999Z'],
  ['0001-01-01T00:00:00Z', '0001-01-01T00:00:00.000Z'],
  ['0000-01-01T00:00:00Z', '0000-01-01T00:00:00.000Z'],
  ['9999-12-31T23:59:59.999Z', '9999-12-31T23:59:59.999Z'],
])('parseDateTime reads %s as %s', (text, expected) => {
  const ms = parseDateTime(text)
  expect(ms === null ? null : new Date(ms).toISOString()).toBe(expected)
})

it.each<[string, string[]]>([
  ['text that is no time', ['', 'now', '1767225600000', ' 2026-03-02T09:30:00Z', '2026-03-02T09:30:00Z\n']],
  ['a part of a time', ['2026-03-02', '2026-03-02T09:30:00', '2026-03-02 09:30:00Z', '2026-01-01T00:00:00.Z']],
  ['a day that no month has', ['2026-02-29', '2026-04-31', '2026-01-00'].map((day) => `${day}T00:00:00Z`)],
  ['a month that no year has', ['2026-00-01T00:00:00Z', '2026-13-01T00:00:00Z']],
  ['an hour, minute or second that is none', ['24:00:00', '23:60:00', '23:59:60'].map((at) => `2026-01-01T${at}Z`)],
  ['an offset that is none', ['2026-01-01T00:00:00+24:00', '2026-01-01T00:00:00+01:60']],
  ['a year of six digits', ['+002026-01-01T00:00:00Z']],
  ['an instant beyond four digits of years', ['9999-12-31T23:59:59-00:01', '0000-01-01T00:00:00+00:01']],
])('parseDateTime returns null for %s', (_, texts) => {
  for (const text of texts) expect(parseDateTime(text), text).toBeNull()
})

it('parseDateTime agrees with the runtime on any instant and offset', () => {
  const instant = fc.date({
    min: new Date('0001-01-02T00:00:00Z'),
    max: new Date('9999-12-30T00:00:00Z'),
    noInvalidDate: true,
  })
  fc.assert(
    fc.property(instant, fc.integer({ min: -14 * 60, max: 14 * 60 }), (date, offset) => {
      const local = new Date(date.getTime() + offset * 60_000).toISOString().slice(0, -1)
      const pad = (n: number) => String(Math.floor(n)).padStart(2, '0')
      const text = `${local}${offset < 0 ? '-' : '+'}${pad(Math.abs(offset) / 60)}:${pad(Math.abs(offset) % 60)}`
      expect(parseDateTime(text)).toBe(date.getTime())
    }),
  )
})
