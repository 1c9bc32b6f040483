import { cpSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fillCompany } from '../harness/company.ts'
import { call, get, sendWell, type Wire } from '../harness/http.ts'
import { idAt, inTurn, loadOf } from '../harness/load.ts'
import { makeThread } from '../harness/mail-thread.ts'
import { openInspector } from '../harness/memory.ts'
import { fillState, openBuild, startApi } from '../harness/worker.ts'
import { requestsOf } from './mail.ts'

const CLIENTS = 1_000
const TOKENS = 60
const WARM_UP_SECONDS = 3
const SECONDS = 5
const SAMPLING_US = 100
/** Functions listed, those with the most time of their own first. */
const LISTED = 40

const COMMENT = /^\/\/ (?!node_modules)(?:\.\.\/)*(src\/\S+\.ts)$/gm
const LIBRARY = /^\/\/ (?:\.\.\/)*node_modules\/(\S+)$/gm

const THREAD = JSON.stringify(makeThread(150_000))

const ROUTES: Record<string, (token: () => string, id: () => number, tokens: string[]) => () => Wire> = {
  client: (token, id) => () => get(`/clients/${id()}`, token()),
  clients: (token) => () => get('/clients', token()),
  order: (token, id) => () => get(`/orders/${id()}`, token()),
  lines: (token) => () => get('/orders?per_page=100&expand=invoice_items', token()),
  patch: (token, id) => () => call('PATCH', `/orders/${id()}`, token(), { title: `Order ${id()}` }),
  put: (_token, _id, tokens) => requestsOf('PUT', 'profiled', tokens, THREAD),
  unchanged: (_token, _id, tokens) => requestsOf('PUT unchanged', 'profiled', tokens, THREAD),
  thread: (_token, _id, tokens) => requestsOf('GET', 'profiled', tokens, THREAD),
}

interface Call {
  functionName: string
  url: string
  lineNumber: number
  columnNumber: number
}

/** `Profiler.Profile` of the developer tools' protocol. */
interface Profile {
  nodes: { id: number; callFrame: Call; children?: number[] }[]
  samples: number[]
  timeDeltas: number[]
}

/** Where a request of some routes, or of all, spends the Worker's time, and the files and functions that it runs. */
export async function run(names: string[]): Promise<void> {
  const unknown = names.find((name) => !(name in ROUTES))
  if (unknown) throw new Error(`There is no route ${unknown}; there are: ${Object.keys(ROUTES).join(', ')}.`)
  const routes = Object.entries(ROUTES).filter(([name]) => names.length === 0 || names.includes(name))
  await using build = await openBuild('no-company-limit.js', ['--no-minify'])
  const { script, directory, state: filled } = build
  const source = readFileSync(join(dirname(script), 'index.js'), 'utf8')
  const tokens = await fillState(filled, (worker) => fillCompany(worker, CLIENTS, TOKENS))
  for (const [name, route] of routes) {
    const state = join(directory, name)
    cpSync(filled, state, { recursive: true })
    await using api = await startApi(script, state, { inspectorPort: 0 })
    let turn = 0
    const next = route(inTurn(tokens), () => idAt(turn++, CLIENTS), tokens)
    await sendWell(api.url, requestsOf('PUT', 'profiled', tokens, THREAD)())
    const load = loadOf(api.url, next)
    using inspector = await openInspector(api.worker)
    await load(WARM_UP_SECONDS)
    await inspector.ask('Profiler.enable')
    await inspector.ask('Profiler.setSamplingInterval', { interval: SAMPLING_US })
    await inspector.ask('Profiler.start')
    const times = await load(SECONDS)
    const { profile } = await inspector.ask<{ profile: Profile }>('Profiler.stop')
    printTimes(name, profile, times.length, source)
  }
}

/** Finds the file of a place in a bundle, whose comments name the files. */
function fileAt(source: string): (line: number, column: number) => string {
  const named = (pattern: RegExp, prefix: string) =>
    [...source.matchAll(pattern)].map(({ index, 1: name }) => ({ index, name: `${prefix}${name}` }))
  const files = [...named(COMMENT, ''), ...named(LIBRARY, 'node_modules/')].toSorted((a, b) => a.index - b.index)
  const lines = [0, ...[...source.matchAll(/\n/g)].map(({ index }) => index + 1)]
  return (line, column) => files.findLast(({ index }) => index <= (lines[line] ?? 0) + column)?.name ?? 'runtime'
}

function printTimes(name: string, profile: Profile, requests: number, source: string): void {
  const files = fileAt(source)
  const { nodes, samples, timeDeltas } = profile
  const byId = new Map(nodes.map((node) => [node.id, node]))
  const parents = new Map(nodes.flatMap(({ id, children = [] }) => children.map((child) => [child, id] as const)))
  const labelOf = ({ functionName, url, lineNumber, columnNumber }: Call) => {
    const file = !url.endsWith('index.js') ? url || 'runtime' : files(lineNumber, columnNumber)
    return `${functionName || '(anonymous)'}  ${file}`
  }
  const self = new Map<string, number>()
  const inclusive = new Map<string, number>()
  const add = (to: Map<string, number>, label: string, us: number) => to.set(label, (to.get(label) ?? 0) + us)
  for (const [index, id] of samples.entries()) {
    const us = timeDeltas[index] ?? 0
    const node = byId.get(id)
    if (!node || node.callFrame.functionName === '(idle)') continue
    add(self, labelOf(node.callFrame), us)
    const stack = new Set<string>()
    for (let at: number | undefined = id; at !== undefined; at = parents.get(at)) {
      const call = byId.get(at)?.callFrame
      if (call) stack.add(labelOf(call))
    }
    for (const label of stack) add(inclusive, label, us)
  }
  const perRequest = (us = 0) => (us / requests).toFixed(0).padStart(7)
  const total = self.values().reduce((sum, us) => sum + us, 0)
  console.log(`\n${name}: ${requests} requests, ${perRequest(total).trim()} µs each in the Worker's thread`)
  console.log('     self  inclusive   function and file')
  const longest = [...self].toSorted(([, a], [, b]) => b - a).slice(0, LISTED)
  for (const [label, us] of longest)
    console.log(`  ${perRequest(us)}    ${perRequest(inclusive.get(label))}   ${label}`)
  printFiles(inclusive.keys())
}

/** Lists the sampled functions of the Worker's own code. */
function printFiles(labels: Iterable<string>): void {
  const byFile = new Map<string, Set<string>>()
  for (const label of labels) {
    const [name = '', file = ''] = label.split('  ')
    if (file.startsWith('src/')) byFile.set(file, (byFile.get(file) ?? new Set()).add(name))
  }
  console.log(`\n  files of src that it runs: ${byFile.size}`)
  for (const [file, names] of [...byFile].toSorted()) console.log(`    ${file}: ${[...names].join(', ')}`)
}
