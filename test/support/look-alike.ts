import { env } from 'cloudflare:workers'
import { lookAlike, lookAlikeRows } from './look-alike-sql.ts'

const LOOK_ALIKES = { DB: 699_999, DB_TWO: 699_998 } as const

type Home = keyof typeof LOOK_ALIKES

const prepare = (home: Home, texts: string[]) => texts.map((text) => env[home].prepare(text))

/** Puts a look-alike into a migrated database that has none. */
export async function placeLookAlike(home: Home): Promise<void> {
  const id = LOOK_ALIKES[home]
  if (await env[home].prepare('SELECT 1 FROM companies WHERE id = ?').bind(id).first()) return
  await env[home].batch(prepare(home, lookAlike(id)))
  if (home === 'DB') return
  await env.DB.prepare(
    `INSERT INTO companies (id, slot, name, database, database_slot, created_at, updated_at)
     VALUES (?1, 0, 'Company ' || ?1, ?2, 0, 0, 0)`,
  )
    .bind(id, home)
    .run()
}

/** Gives the look-alike the ids that the next clients, orders and invoices of a company get. */
export function overlap(home: Home, from: number): D1PreparedStatement[] {
  return prepare(home, lookAlikeRows(LOOK_ALIKES[home], from, 2, 2))
}
