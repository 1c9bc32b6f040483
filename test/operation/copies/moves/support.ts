import { env } from 'cloudflare:workers'
import type { Env } from '../../../../src/env.ts'
import { type Home, send } from '../../../support/app.ts'

/** The bookmarks, or `first-primary`, with which sessions of a database begin while a request is sent. */
export async function sessionsOf(name: Home, sent: Request) {
  const sessions: unknown[] = []
  const watched = new Proxy(env[name], {
    get: (target, key) => {
      const value: unknown = Reflect.get(target, key)
      if (key !== 'withSession') return typeof value === 'function' ? value.bind(target) : value
      return (start: string) => {
        sessions.push(start)
        return target.withSession(start)
      }
    },
  })
  const { status, headers, body } = await send(sent, { env: { ...env, [name]: watched } as Env })
  return { status, sessions, body, bookmark: headers.get('x-bookmark') ?? '' }
}
