import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { BUDGET_MS } from '../../../src/kernel/http/bounds.ts'
import { ask as askFor } from '../harness/ask.ts'
import { ADMIN_TOKEN, type Service } from './two-databases.ts'

/** A request that is repeated while the service still runs it may end after those that were sent later. */
const RESPONSE_MS = 2 * BUDGET_MS.handler

/** One request, as {@link askFor} sends it. */
export const ask = (
  service: Service,
  token: string,
  method: string,
  path: string,
  body?: object,
  headers: Record<string, string> = {},
) => askFor(service, token, method, path, { body, headers, timeoutMs: RESPONSE_MS })

/** A request of the operator that succeeds. */
export async function administer(service: Service, method: string, path: string, body?: object) {
  const answer = await ask(service, ADMIN_TOKEN, method, `/admin/v1${path}`, body)
  if (answer.status !== 200) throw new Error(`${method} ${path}: ${answer.status} ${JSON.stringify(answer.body)}`)
  return answer.body
}

export async function makeTokens(service: Service, companyId: number, count: number): Promise<string[]> {
  const tokens: string[] = []
  for (let number = 0; number < count; number++) {
    tokens.push((await administer(service, 'POST', `/companies/${companyId}/tokens`, { name: `t${number}` })).token)
  }
  return tokens
}

/** `npm run companies -- move`, as a process of its own. */
export function startMove({ url }: Service, companyId: number, to: string) {
  const args = [join(import.meta.dirname, '../../../src/cli/companies.ts'), 'move', String(companyId), '--to', to]
  const { promise, resolve } = Promise.withResolvers<{ code: number | null; output: string }>()
  const env = { ...process.env, CRM_ADMIN_TOKEN: ADMIN_TOKEN }
  const child = execFile(process.execPath, [...args, '--remote', url], { env }, (_, stdout, stderr) => {
    resolve({ code: child.exitCode, output: stdout + stderr })
  })
  return { ended: promise, kill: () => child.kill('SIGKILL') }
}
