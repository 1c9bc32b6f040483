import { listDurableObjectIds, reset, runInDurableObject } from 'cloudflare:test'
import { env } from 'cloudflare:workers'

async function wakeAll<T extends Rpc.DurableObjectBranded>(namespace: DurableObjectNamespace<T>): Promise<unknown> {
  const ids = await listDurableObjectIds(namespace)
  return Promise.all(ids.map((id) => runInDurableObject(namespace.get(id), () => undefined)))
}

/** Empties all storage. `reset` alone leaves that of objects idle for 10 s. Databases and buckets are such objects in tests. */
export async function emptyStorage(): Promise<void> {
  await Promise.all([
    ...[env.DB, env.DB_TWO].map((database) => database.prepare('SELECT 1').run()),
    ...[env.FILES, env.BACKUPS].map((bucket) => bucket.head('none')),
    env.CACHE.get('none'),
    wakeAll(env.RATE_LIMITER),
    wakeAll(env.COMPANY_LIMITER),
    wakeAll(env.ACCOUNTING_DELIVERY),
    wakeAll(env.WEBHOOK_DELIVERY),
    wakeAll(env.COMPANY_BACKUP),
  ])
  await reset()
}
