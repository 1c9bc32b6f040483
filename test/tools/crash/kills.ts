import { setTimeout as sleep } from 'node:timers/promises'
import { type Service, startService } from './service.ts'
import { openShop, type Shop } from './shop.ts'

/** Gives work a shop of its own, and the service that runs on it. */
export async function withService<T>(work: (shop: Shop, service: Service) => Promise<T>): Promise<T> {
  await using opened = new AsyncDisposableStack()
  const shop = await openShop()
  opened.defer(shop.close)
  const service = await startService(shop.state)
  opened.defer(service.stop)
  await service.waitUntilServing(shop.tokens[0] ?? '')
  return await work(shop, service)
}

/**
 * Kills the runtime again and again at random moments, until the work has ended.
 *
 * @param whenKilled runs before the runtime serves again
 * @returns the number of kills
 */
export async function killUntilDone(
  [shop, service]: [Shop, Service],
  pauseMs: () => number,
  work: Promise<unknown>,
  whenKilled: () => Promise<void> = async () => {},
): Promise<number> {
  let isDone = false
  const done = work.finally(() => {
    isDone = true
  })
  const kill = async () => {
    for (let kills = 0; ; kills++) {
      await sleep(pauseMs())
      if (isDone) return kills
      service.kill('workerd')
      await whenKilled()
      await service.waitUntilServing(shop.tokens.at(-1) ?? '')
    }
  }
  const [kills] = await Promise.all([kill(), done])
  return kills
}
