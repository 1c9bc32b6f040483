import type { Published } from '../../../kernel/api/contract.ts'
import { endpoints } from './contract.ts'

const move = { source: 'DB', destination: 'DB_APAC', step: 'copy', rows: 48_210 }

export const published: Published = {
  tag: 'Where the data of companies is.',
  endpoints,
  document: () => ({
    listDatabases: {
      summary: 'List the databases',
      description:
        'With their size and what they hold. `DB` is also the directory of all companies, tokens and members.',
      example: {
        response: {
          data: [
            {
              name: 'DB',
              companies: 12,
              rows: 81_400,
              size_bytes: 104_857_600,
              size_max_bytes: 10_000_000_000,
              error: null,
            },
          ],
          moves: [
            {
              company_id: 7,
              ...move,
              started_at: '2026-11-22T09:00:00.000Z',
              updated_at: '2026-11-22T09:00:05.000Z',
            },
          ],
        },
      },
    },
    createCompany: {
      summary: 'Create a company',
      description:
        'Without data: in the database that is named. A seed file that is imported for a company that does not exist creates it in `DB`.',
      example: {
        body: { id: 7, name: 'Ridgeline Custom Apparel', database: 'DB_APAC' },
        response: { id: 7, name: 'Ridgeline Custom Apparel', database: 'DB_APAC' },
      },
    },
    moveCompany: {
      summary: 'Move a company to another database',
      description:
        'Each request does some steps, for about 5 s: repeat it with the same body until `done`. One that is interrupted is continued by the next. Requests of the company go on meanwhile; in the last moment its writes get 503 with `Retry-After`. Both databases are compared before the new one takes over. Until then a request with the present database takes the move back.',
      example: {
        params: { company_id: '7' },
        body: { database: 'DB_APAC' },
        response: { done: false, ...move, frozen_ms: 0 },
      },
    },
  }),
}
