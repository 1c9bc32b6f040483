import { env } from 'cloudflare:workers'
import type { Env } from '../../../../src/env.ts'
import { continueMove } from '../../../../src/operation/copies/move.ts'
import { adminCall, operatorOf } from '../../../support/admin.ts'
import { type Home, send } from '../../../support/app.ts'
import { noteSessions } from '../../../support/wrap-bindings.ts'

/** What each step of a move says, until it is done. */
export async function* stepsOf(companyId: number, to: Home, bindings: Env = env, ms = 0) {
  for (let count = 0; count < 500; count++) {
    const progress = await continueMove(bindings, operatorOf(companyId), to, ms)
    yield progress
    if (progress.done) return
  }
  throw new Error('The move does not end.')
}

/** Moves as `npm run companies -- move` does. */
export async function move(id: number, database: Home): Promise<undefined> {
  for (let count = 0; count < 50; count++) {
    const { status, body } = await adminCall('POST', `/companies/${id}/move`, { database })
    if (status !== 200) throw new Error(`${status} ${body.error.message}`)
    if (body.done) return
  }
  throw new Error('The move does not end.')
}

/** The bookmarks, or `first-primary`, with which sessions of a database begin while a request is sent. */
export async function sessionsOf(name: Home, sent: Request) {
  const { database, sessions } = noteSessions(env[name])
  const { status, headers, body } = await send(sent, { env: { ...env, [name]: database } as Env })
  return { status, sessions, body, bookmark: headers.get('x-bookmark') ?? '' }
}
