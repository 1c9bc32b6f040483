/** Tables that neither a backup nor a move copies like others, with the reason. */
export const NOT_COPIED = {
  companies: 'A manifest has the row, and the end of a move copies it. Triggers count, last ids are raised.',
  thread_context_links: 'Written by triggers.',
  company_guards: 'Of a move under way.',
  moves: 'Of a move under way.',
} as const
