import { type MailThread, makeNoise, makeThread } from '../bench/mail-thread.ts'

/** Small, usual and large. */
export const THREAD_BYTES = [2_000, 150_000, 1_700_000, 3_200_000] as const

/** More than a megabyte compressed, which R2 holds. */
export const BYTES_FOR_R2 = 2_000_000

const templates = new Map<number, MailThread>()

/** A thread of about `bytes` bytes that no other write sends: its mark stands all over it, so that a mixture shows. */
export function makeThreadBody(accountEmail: string, bytes: number, mark: string): MailThread {
  const template = templates.get(bytes) ?? makeTemplate(bytes)
  templates.set(bytes, template)
  return {
    ...template,
    account_email: accountEmail,
    subject: mark,
    labels: [mark],
    messages: template.messages.map((message) => ({ ...message, snippet: mark })),
  }
}

function makeTemplate(bytes: number): MailThread {
  if (bytes !== BYTES_FOR_R2) return makeThread(bytes)
  const thread = makeThread(2_000)
  return { ...thread, messages: thread.messages.map((message) => ({ ...message, body_plain: makeNoise(bytes) })) }
}
