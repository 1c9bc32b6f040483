import { conclude, readFlags } from '../harness/arguments.ts'
import { describe, judge } from './report.ts'
import { runLoad } from './run.ts'

/*
 * npm run load -- --seconds N
 *
 * Looks for the highest rate of mixed traffic that this machine sustains, keeps it up for N seconds, then twice it for
 * as long, and watches how soon latency recovers. Ends with exit code 1 where there was a response that overload does
 * not explain, memory was not flat, or the recovery took more than 5 s. Needs Linux, for memory figures in /proc.
 */
const TRIAL_SECONDS = 6
const CLIENTS = 10_000
const THREADS = 100
/** For 2,500 requests a second, at 300 a minute each. */
const TOKENS = 500

const { seconds = 60 } = readFlags('npm run load -- [--seconds N]', { seconds: [1, 9_999] })
const sizes = { clients: CLIENTS, threads: THREADS, tokens: TOKENS }
const report = await runLoad({ seconds, trialSeconds: TRIAL_SECONDS, ...sizes, say: console.log })
console.log(describe(report))
conclude(judge(report))
