/** Objects whose changes are sent, by their name in the feed of changes. */
const OBJECTS = { clients: 'client', orders: 'order', email_threads: 'email_thread' } as const
const VERBS = { create: 'created', update: 'updated', delete: 'deleted' } as const
const STATUS_CHANGED = 'order.status_changed' as const

export const EVENT_TYPES = Object.values(OBJECTS).flatMap((object) => [
  ...Object.values(VERBS).map((verb) => `${object}.${verb}` as const),
  ...(object === 'order' ? [STATUS_CHANGED] : []),
])

export function eventTypeOf(type: keyof typeof OBJECTS, operation: keyof typeof VERBS | 'status_changed') {
  return operation === 'status_changed' ? STATUS_CHANGED : (`${OBJECTS[type]}.${VERBS[operation]}` as const)
}
