import { readEnvelope, toVariant } from '../../../src/resources/products/suppliers/supplier-a.ts'
import { makeLargeEnvelope } from '../../../src/simulators/supplier-a.ts'

/**
 * Measures the CPU of parsing one response of supplier_a into variants: 558 rows, 1.9 MB.
 * `coldMs` is the first run, as an isolate that has just started pays it; the rest are of the runs after it.
 */
export function measureSoapParsing(runs = 30): { rows: number; coldMs: number; medianMs: number; worstMs: number } {
  const xml = makeLargeEnvelope()
  let rows = 0
  const parse = () => {
    const started = process.cpuUsage()
    rows = readEnvelope(xml).rows.map(toVariant).length
    const { user, system } = process.cpuUsage(started)
    return (user + system) / 1000
  }
  const coldMs = parse()
  const warm = Array.from({ length: runs }, parse).sort((a, b) => a - b)
  return { rows, coldMs, medianMs: warm[Math.floor(runs / 2)] ?? 0, worstMs: warm.at(-1) ?? 0 }
}

if (import.meta.main) {
  const { rows, coldMs, medianMs, worstMs } = measureSoapParsing()
  const show = (ms: number) => `${ms.toFixed(1)} ms`
  console.log(`CPU to parse ${rows} SOAP rows: ${show(medianMs)} (worst ${show(worstMs)}, first ${show(coldMs)})`)
}
