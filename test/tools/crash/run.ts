import { copyFileSync, rmSync } from 'node:fs'
import { DatabaseSync } from 'node:sqlite'
import { setTimeout as sleep } from 'node:timers/promises'
import { createRandom, type Random } from '../../support/random.ts'
import { checkDatabase } from './check.ts'
import { openCopy, readState, select } from './rows.ts'
import { openShop, type Service, type Shop, startService, type Victim } from './shop.ts'
import { type Action, type CompanyState, idIn, type Write } from './state.ts'
import { countUnnamed, nextMailObject, readMailObjects } from './threads.ts'
import { FIRST_WRITE, makeAction, send, type World } from './writes.ts'

const WRITERS = 8
/** When the service is killed, after the writes began. */
const KILL_AFTER_MS = [150, 1_300] as const
/** In every second pair of turns it is killed while R2 stores mail content, or when it has, before a row names it if possible. */
const OBJECT_WITHIN_MS = 5_000

/** What was announced before is given up by a sweep at this time, in milliseconds from now. */
const COLLECT_AFTER_MS = 7_200_000

interface Settings {
  seed: number
  /** Crashes; the runtime alone and everything in turn. */
  times: number
  report?: (line: string) => void
}

const noFigures = () => ({
  crashes: { workerd: 0, group: 0 },
  acknowledged: 0,
  /** Sent and without a response when the service was killed. */
  inFlight: 0,
  /** Of the writes that were left without a response, those that were carried out. */
  carriedOut: 0,
  refused: 0,
  /** Objects of mail that were announced, and not named before a kill. */
  unnamedObjects: 0,
})

type Figures = ReturnType<typeof noFigures>

export const describe = ({ crashes, acknowledged, inFlight, carriedOut, refused, unnamedObjects }: Figures) =>
  `${crashes.workerd + crashes.group} crashes (${crashes.workerd} of the runtime, ${crashes.group} of everything): ${acknowledged} writes acknowledged, ${inFlight} in flight at a kill (${carriedOut} of them carried out), ${refused} refused, ${unnamedObjects} objects of mail left without a name`

/**
 * Kills the service repeatedly while several callers write, restarts it on the same data and checks that every
 * acknowledged write is there and that no write is there in part.
 */
export async function crash({ seed, times, report = () => {} }: Settings) {
  const moments = createRandom(seed)
  const shop = await openShop()
  const journal: Write[] = []
  const figures = noFigures()
  const findings: string[] = []
  let service: Service | undefined
  try {
    const { first, world } = readWorld(await shop.copyDatabase())
    service = await startService(shop.state)
    await service.waitUntilServing(tokenOf(shop, 0))
    const sent = await send(service.url, tokenFor(shop, FIRST_WRITE, 0), 'crash-first', FIRST_WRITE, world)
    journal.push(sent.write)
    if (sent.violation) findings.push(sent.violation)
    for (let turn = 0; turn < times && findings.length === 0; turn++) {
      const victim = turn % 2 === 0 ? 'workerd' : 'group'
      const round = await writeUntilKilled(service, shop, world, {
        turn,
        victim,
        killAfterMs: turn % 4 < 2 ? moments.between(...KILL_AFTER_MS) : null,
        moment: turn % 8 < 4 ? 'begun' : 'stored',
        // Each caller draws from numbers of its own: what one writes does not depend on how fast the others are.
        randoms: Array.from({ length: WRITERS }, (_, writer) => createRandom(seed + turn * WRITERS + writer)),
      })
      journal.push(...round.writes)
      figures.crashes[victim]++
      figures.inFlight += round.inFlight
      findings.push(...round.violations)

      if (victim === 'group') service = await startService(shop.state)
      await service.waitUntilServing(tokenOf(shop, turn))
      const stored = { path: await shop.copyDatabase(), objects: readMailObjects(shop.state) }
      findings.push(...checkDatabase(stored, first, journal))
      report(
        `crash ${turn + 1} (${victim}) after ${round.killedAfterMs} ms: ${round.writes.length} writes, ${round.inFlight} in flight; ${findings.length} findings`,
      )
    }
    countOutcomes(figures, journal, await shop.copyDatabase())
    const atMs = Date.now() + COLLECT_AFTER_MS
    await (await fetch(`${service.url}/cdn-cgi/local/scheduled?time=${atMs}`)).body?.cancel()
    await service.stop()
    const collected = { path: await shop.copyDatabase(), objects: readMailObjects(shop.state), isCollected: true }
    findings.push(...checkDatabase(collected, first, journal))
    return { figures, findings, recheck: (spoil: string) => recheck(shop, spoil, first, journal), close: shop.close }
  } catch (error) {
    await service?.stop()
    await shop.close()
    throw error
  }
}

function readWorld(path: string): { first: CompanyState; world: World } {
  using db = openCopy(path)
  const first = readState(db)
  const live = (rows: Map<number, { id: number; deleted: number }>) =>
    [...rows.values()].flatMap(({ id, deleted }) => (deleted ? [] : [id]))
  const statuses = select<{ id: number }>(db, 'SELECT id FROM order_statuses WHERE deleted = 0')
  const world = {
    clientIds: live(first.clients),
    orderIds: live(first.orders),
    statusIds: statuses.map(({ id }) => id),
    maybeDeleted: { orders: new Set<number>(), clients: new Set<number>() },
  }
  return { first, world }
}

interface Round {
  turn: number
  victim: Victim
  /** Null for the moment of the next object of mail. */
  killAfterMs: number | null
  moment: 'begun' | 'stored'
  randoms: Random[]
}

/** Writes from several callers at once, under several tokens each, until the service is killed and all have ended. */
async function writeUntilKilled(service: Service, shop: Shop, world: World, round: Round) {
  const { turn, victim, killAfterMs, moment, randoms } = round
  const writes: Write[] = []
  const violations: string[] = []
  const open = new Set<string>()
  let isKilled = false
  let count = 0

  async function write(random: Random): Promise<void> {
    while (!isKilled) {
      const requestId = `crash-${turn}-${++count}`
      open.add(requestId)
      const action = makeAction(random, world)
      const sent = await send(service.url, tokenFor(shop, action, count), requestId, action, world)
      open.delete(requestId)
      writes.push(sent.write)
      remember(world, sent.write)
      const isExcused = isKilled && sent.write.outcome === 'unknown'
      if (sent.violation && !isExcused) violations.push(`${requestId}: ${sent.violation}`)
    }
  }

  const started = Date.now()
  const writers = randoms.map(write)
  await (killAfterMs === null ? nextMailObject(shop.state, moment, OBJECT_WITHIN_MS) : sleep(killAfterMs))
  const killedAfterMs = Date.now() - started
  isKilled = true
  const inFlight = open.size
  service.kill(victim)
  await Promise.all(writers)
  return { writes, violations, inFlight, killedAfterMs }
}

/** What was made can be written to from now on. */
function remember(world: World, write: Write): void {
  const ids = { 'client.create': world.clientIds, 'order.create': world.orderIds }
  const { kind } = write.action
  const id = idIn(write)
  if ((kind === 'client.create' || kind === 'order.create') && typeof id === 'number') ids[kind].push(id)
}

function countOutcomes(figures: Figures, journal: readonly Write[], copy: string): void {
  using db = openCopy(copy)
  const done = new Set(select<{ id: string }>(db, 'SELECT request_id AS id FROM audit_log').map(({ id }) => id))
  figures.unnamedObjects = countUnnamed(db)
  for (const { outcome, requestId } of journal) {
    if (outcome !== 'unknown') figures[outcome]++
    else if (done.has(requestId)) figures.carriedOut++
  }
}

/** The findings in the last checked database after these statements. */
function recheck(shop: Shop, spoil: string, first: CompanyState, journal: readonly Write[]): string[] {
  const copy = `${shop.state}-copy.sqlite`
  copyFileSync(`${shop.state}/../copy.sqlite`, copy)
  try {
    const db = new DatabaseSync(copy, { enableForeignKeyConstraints: false })
    db.exec(spoil)
    db.close()
    return checkDatabase({ path: copy, objects: readMailObjects(shop.state) }, first, journal)
  } finally {
    rmSync(copy, { force: true })
  }
}

/**
 * Each change of the same row uses another token, because the audit records a repeated change of one token only once a
 * minute.
 */
function tokenFor(shop: Shop, action: Action, count: number): string {
  if (action.kind === 'client.create' || action.kind === 'order.create') return tokenOf(shop, count)
  const key = JSON.stringify([action.kind, 'id' in action ? action.id : action.thread])
  const turn = shop.turns.get(key) ?? count
  shop.turns.set(key, turn + 1)
  return tokenOf(shop, turn)
}

function tokenOf({ tokens }: Shop, turn: number): string {
  return tokens[turn % tokens.length] ?? ''
}
