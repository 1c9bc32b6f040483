import { type MailThread, makeThread } from '../bench/mail-thread.ts'

/** Small, usual, and more than one and two segments of what is stored (1.4 MB of text each). */
export const THREAD_BYTES = [2_000, 150_000, 1_700_000, 3_200_000] as const

const templates = new Map<number, MailThread>()

/** A thread of about `bytes` bytes that no other write sends: its mark stands all over it, so that a mixture shows. */
export function makeThreadBody(accountEmail: string, bytes: number, mark: string): MailThread {
  const template = templates.get(bytes) ?? makeThread(bytes)
  templates.set(bytes, template)
  return {
    ...template,
    account_email: accountEmail,
    subject: mark,
    labels: [mark],
    messages: template.messages.map((message) => ({ ...message, snippet: mark })),
  }
}
