import type { Queue } from './queries.ts'

/** Whether the company's integration cannot go on until somebody changes it. */
function isStopped({ integration, connection }: Pick<Queue, 'integration' | 'connection'>): boolean {
  return integration !== null && connection !== null && connection.stoppedFor === integration.updatedAt
}

/**
 * When the company's notices are to be delivered, in milliseconds since the epoch: `nowMs` for at once, null for not
 * by itself.
 */
export function getWakeTime(queue: Queue, nowMs: number): number | null {
  const { integration, connection, orderIds, nextAttemptAt } = queue
  if (!integration || isStopped(queue)) return null
  const at = orderIds.length > 0 ? nowMs : nextAttemptAt
  return at === null ? null : Math.max(at, connection?.pausedUntil ?? 0)
}
