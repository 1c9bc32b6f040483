import { createHash, randomBytes } from 'node:crypto'
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { Agent, request } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { makeThread } from './mail-thread.ts'
import { buildWorker, migrationStatements, type Running, startApi, startBare } from './worker.ts'

/** How much of each size, and how often it is sent in a round. */
const SIZES = [
  { name: '150 KB', bytes: 150_000, requests: 120 },
  { name: '1 MB', bytes: 1_000_000, requests: 40 },
  { name: '5 MB', bytes: 5_000_000, requests: 12 },
  { name: '20 MB', bytes: 20_000_000, requests: 6 },
]
const ROUNDS = 3

/** How much of the floor's p50 each work may take. */
const TARGETS = { PUT: 3, 'PUT unchanged': 1.5, GET: 2 } as const
type Work = keyof typeof TARGETS

/** A token may make 300 requests a minute. */
const TOKENS = 40

/** The floor: the body read, parsed and answered, and nothing kept. */
const FLOOR = 'export default { async fetch(request) { return Response.json(await request.json()) } }'

/** Whole email threads, one request after another, against a Worker in the same run that only parses and answers. */
export async function run(): Promise<void> {
  const directory = mkdtempSync(join(tmpdir(), 'bench-mail-'))
  const script = buildWorker(join(directory, 'build'))
  const before = workerdProcesses()
  const floor = await startBare(FLOOR, join(directory, 'floor'))
  const floorPid = newProcess(before)
  const api = await startApi(script, join(directory, 'api'))
  const apiPid = newProcess([...before, floorPid])
  try {
    const tokens = await prepare(api)
    console.log(`email threads, one request at a time: p50/p99 in ms of ${ROUNDS} alternating rounds`)
    console.log(
      '  size    work              API p50     p99   floor p50     p99   ratio  target   peak MB   floor   stored/sent',
    )
    for (const size of SIZES) await measureSize(size, api, apiPid, floor, floorPid, tokens)
  } finally {
    await api.worker.dispose()
    await floor.worker.dispose()
    rmSync(directory, { recursive: true, force: true })
  }
}

async function prepare(api: Running): Promise<string[]> {
  const db = await api.worker.getD1Database('DB')
  for (const statement of migrationStatements()) await db.prepare(statement).run()
  const tokens = Array.from({ length: TOKENS }, () => randomBytes(32).toString('hex'))
  await db.batch([
    db.prepare("INSERT INTO companies (id, slot, name, created_at, updated_at) VALUES (1, 0, 'Bench', 0, 0)"),
    ...tokens.map((token) =>
      db
        .prepare(
          `INSERT INTO api_tokens (company_id, token_hash, name, permissions, created_at)
           VALUES (1, ?, 'bench', '["mail:read","mail:write"]', 0)`,
        )
        .bind(createHash('sha256').update(token).digest('hex')),
    ),
  ])
  for (const token of tokens) await send(api.url, 'GET', '/api/v1/mail/threads/none', token)
  return tokens
}

async function measureSize(
  size: (typeof SIZES)[number],
  api: Running,
  apiPid: number,
  floor: Running,
  floorPid: number,
  tokens: string[],
): Promise<void> {
  const thread = makeThread(size.bytes)
  const path = `/api/v1/mail/email-threads/${size.bytes}`
  let turn = 0
  const token = () => tokens[turn++ % tokens.length] ?? ''
  const same = Buffer.from(JSON.stringify(thread))
  // Another id at the end of the JSON makes other content of the same length.
  const changed = () => Buffer.from(JSON.stringify({ ...thread, labels: [String(1_000_000 + turn++)] }))
  const works: Record<Work, () => Promise<number>> = {
    PUT: () => send(api.url, 'PUT', path, token(), changed()),
    'PUT unchanged': () => send(api.url, 'PUT', path, token(), same),
    GET: () => send(api.url, 'GET', `${path}?account_email=sales@shop.example`, token()),
  }
  const bare = () => send(floor.url, 'POST', '/', '', same)

  for (const work of Object.keys(works) as Work[]) {
    if (work === 'PUT unchanged') await works[work]()
    for (let i = 0; i < 3; i++) await Promise.all([works[work](), bare()])
    forgetPeak(apiPid)
    forgetPeak(floorPid)
    const times: { api: number[]; floor: number[] } = { api: [], floor: [] }
    for (let round = 0; round < ROUNDS; round++) {
      for (let i = 0; i < size.requests; i++) times.floor.push(await bare())
      for (let i = 0; i < size.requests; i++) times.api.push(await works[work]())
    }
    const ratio = quantile(times.api, 0.5) / quantile(times.floor, 0.5)
    const figures = [times.api, times.floor].map(
      (list) => `${column(quantile(list, 0.5))} ${column(quantile(list, 0.99))}`,
    )
    const stored = work === 'PUT' ? ((await storedBytes(api)) / same.length).toFixed(3) : ''
    console.log(
      `  ${size.name.padEnd(7)} ${work.padEnd(15)} ${figures.join('  ')}   ${ratio.toFixed(2).padStart(5)}  ${String(TARGETS[work]).padStart(5)}${ratio > TARGETS[work] ? ' over' : '     '} ${column(peakMb(apiPid))} ${column(peakMb(floorPid))}   ${stored}`,
    )
  }
}

const agent = new Agent({ keepAlive: true })

/** @returns milliseconds until the last byte of the answer */
function send(url: string, method: string, path: string, token: string, body?: Buffer): Promise<number> {
  const start = performance.now()
  return new Promise((resolve, reject) => {
    const headers = {
      authorization: `Bearer ${token}`,
      ...(body && { 'content-type': 'application/json', 'content-length': body.length }),
    }
    const sent = request(`${url}${path}`, { method, headers, agent }, (response) => {
      response.on('data', () => {})
      response.on('end', () => {
        const isExpected = response.statusCode === 200 || path.endsWith('/none')
        if (isExpected) resolve(performance.now() - start)
        else reject(new Error(`${method} ${path}: ${response.statusCode}`))
      })
    })
    sent.on('error', reject)
    sent.end(body)
  })
}

async function storedBytes(api: Running): Promise<number> {
  const db = await api.worker.getD1Database('DB')
  const sum = await db
    .prepare(
      `SELECT sum(length(data)) AS bytes FROM email_thread_segments
       WHERE thread_id = (SELECT id FROM email_threads ORDER BY updated_at DESC LIMIT 1)`,
    )
    .first<{ bytes: number }>()
  return sum?.bytes ?? 0
}

/** The workerd processes that this process started: each is a whole simulated platform, its database included. */
function workerdProcesses(): number[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
    .filter((pid) => {
      try {
        const status = readFileSync(`/proc/${pid}/status`, 'utf8')
        return /^Name:\s+workerd$/m.test(status) && new RegExp(`^PPid:\\s+${process.pid}$`, 'm').test(status)
      } catch {
        return false
      }
    })
}

function newProcess(known: number[]): number {
  const pid = workerdProcesses().find((each) => !known.includes(each))
  if (pid === undefined) throw new Error('No workerd was started.')
  return pid
}

function forgetPeak(pid: number): void {
  writeFileSync(`/proc/${pid}/clear_refs`, '5')
}

/** The most memory that the process held since {@link forgetPeak}, in MB. */
function peakMb(pid: number): number {
  const kib = /^VmHWM:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]
  return (Number(kib) * 1024) / 1_000_000
}

function quantile(times: number[], share: number): number {
  const sorted = times.toSorted((a, b) => a - b)
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN
}

function column(value: number): string {
  return value.toFixed(1).padStart(8)
}

if (import.meta.main) await run()
