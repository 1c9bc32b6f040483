import * as z from 'zod/mini'
import { component, dateTime, defineContract, id, idText } from '../../../kernel/api/contract.ts'
import { seedFile } from '../../copies/seed/file.ts'
import { storedThread } from '../../copies/seed/threads.ts'

/** Limits the parts of a file: five million rows at 500 rows a part. */
const MAX_PARTS = 10_000
/** Limits the threads of one part, which come on top of its rows. */
const MAX_THREADS = 500
/** Limits the ids of one kind to which a part can refer. */
const MAX_KNOWN = 2_000

const company_id = idText.check(z.describe('The company, which is created when there is none.'))
const hash = z
  .string()
  .check(z.regex(/^[0-9a-f]{64}$/, 'must be 64 lower-case hexadecimal digits'), z.describe('Names the import.'))
const partNumber = z.int().check(z.minimum(1), z.maximum(MAX_PARTS))
const parts = partNumber.check(z.describe('How many parts the file has.'))
const nextPart = z
  .nullable(partNumber)
  .check(z.describe('The part to send next. Null when all are loaded: the file may be sent again from part 1.'))
const knownIds = z.optional(z.array(id).check(z.maxLength(MAX_KNOWN)))

const importPart = z
  .strictObject({
    hash: hash.check(z.describe('Of the whole file: names the import. By convention the SHA-256.')),
    part: partNumber.check(z.describe('Which part it is, from 1. Parts are loaded in this order.')),
    parts,
    check: z
      ._default(z.boolean(), false)
      .check(
        z.describe(
          'Compares the part with the database and loads nothing: check all parts before the first is loaded.',
        ),
      ),
    known: z
      .optional(z.strictObject({ clients: knownIds, order_statuses: knownIds, taxes: knownIds }))
      .check(z.describe('For a check: ids in other parts of the file, to which this one refers.')),
    file: seedFile.check(z.describe('A seed file of the company. Together with the other parts it is the whole file.')),
    threads: z
      ._default(z.array(storedThread).check(z.maxLength(MAX_THREADS)), [])
      .check(z.describe('Email threads of an export, in the form in which they are stored.')),
  })
  .check(
    z.refine(({ part, parts }) => part <= parts, { path: ['part'], error: 'must be at most `parts`' }),
    z.meta({ id: 'ImportPart', description: 'A part of a seed file, loaded as one transaction.' }),
  )

const difference = z.strictObject({
  type: z.string().check(z.describe('Such as `client`, `order`, `invoice` or `line`.')),
  id,
  fields: z.array(z.string()),
})

export const createImport = defineContract({
  tag: 'Imports',
  permission: null,
  role: 'operator',
  createsCompany: true,
  method: 'POST',
  path: '/companies/{company_id}/imports',
  operationId: 'createImport',
  params: z.strictObject({ company_id }),
  body: importPart,
  response: component('ImportResult', 'What a part holds, and what comes next.', {
    hash,
    part: partNumber,
    parts,
    next_part: nextPart,
    counts: z.record(z.string(), z.int()).check(z.describe('Rows of the part by table.')),
    differences: z
      .array(difference)
      .check(z.describe('Rows of clients and orders that exist and differ from the part. They are not changed.')),
  }),
  errors: ['conflict', 'too_large', 'unavailable'],
})

export const readImport = defineContract({
  tag: 'Imports',
  permission: null,
  role: 'operator',
  method: 'GET',
  path: '/companies/{company_id}/imports/{hash}',
  operationId: 'readImport',
  params: z.strictObject({ company_id: idText.check(z.describe('The company.')), hash }),
  response: component('Import', 'How far an import has come.', {
    hash,
    parts,
    next_part: nextPart,
    updated_at: dateTime,
  }),
  errors: ['not_found'],
})

export const endpoints = [createImport, readImport]
