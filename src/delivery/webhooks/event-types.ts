/** Objects whose changes are sent, by their name in the feed of changes. */
export const OBJECTS = { clients: 'client', orders: 'order', email_threads: 'email_thread' } as const
export const VERBS = { create: 'created', update: 'updated', delete: 'deleted' } as const

export const EVENT_TYPES = Object.values(OBJECTS).flatMap((object) =>
  Object.values(VERBS).map((verb) => `${object}.${verb}` as const),
)
