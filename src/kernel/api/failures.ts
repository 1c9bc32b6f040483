import type { Context } from 'hono'
import { databaseText } from '../db/failures.ts'
import { DeadlineError } from '../http/deadline.ts'
import { ApiError, ERRORS, errorResponse } from '../http/errors.ts'
import { log } from '../http/log.ts'
import type { AppEnv } from './context.ts'

/**
 * The response for any thrown value. Every 5xx is logged: a `failure` with its cause, which is also counted, or the
 * kind of an ApiError.
 */
export function toResponse(thrown: unknown, c: Context<AppEnv>, countFailure: () => void): Response {
  const requestId = c.get('requestId')
  if (thrown instanceof ApiError) {
    const error = afterWrites(thrown, c)
    const { kind, message, cause } = error
    const { status } = ERRORS[kind]
    const logged = cause === undefined ? message : `${message} | ${cause}`
    if (status >= 500) log(kind, { request_id: requestId, status, error: logged }, 'error')
    return errorResponse(error, c.req.url, c.get('operation'))
  }
  log('failure', { request_id: requestId, status: 500, error: describe(thrown) }, 'error')
  countFailure()
  return errorResponse(
    new ApiError('internal_error', { message: `Internal error: report the request id ${requestId}` }),
    c.req.url,
    c.get('operation'),
  )
}

/** `Retry-After` promises that nothing changed. If a non-idempotent request may have written, answer 503 without it. */
function afterWrites(error: ApiError, c: Context<AppEnv>): ApiError {
  const { rowsWritten, openWrites } = c.get('databaseUse')
  const isRepeatable = ['GET', 'HEAD', 'PUT'].includes(c.req.method)
  const asks = error.kind === 'rate_limited' || (error.kind === 'unavailable' && 'Retry-After' in error.headers)
  if (!asks || isRepeatable || rowsWritten + openWrites === 0) return error
  const message =
    'The request may have been carried out, or a part of it: send it again with the Idempotency-Key that it had; without one, first read what was changed'
  return new ApiError('unavailable', { message, cause: [error.message, error.cause].filter(Boolean).join(' | ') })
}

/** Describes a failure for the log, without any message that may hold values: see {@link databaseText}. */
function describe(thrown: unknown): string {
  if (!(thrown instanceof Error)) return typeof thrown
  const harmless = thrown instanceof DeadlineError ? thrown.message : databaseText(thrown)
  // The stack begins with the message, whose own lines could look like frames.
  const stack = (thrown.stack ?? '').replace(thrown.message, '')
  const frames = stack.split('\n').filter((line) => line.trimStart().startsWith('at '))
  return [thrown.name, harmless, ...frames.slice(0, 6)].filter(Boolean).join(' | ')
}
