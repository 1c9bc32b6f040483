import * as z from 'zod/mini'
import { LEGACY_THREAD_ID } from '../files/keys.ts'

/** The path of both endpoints of a thread. */
export const threadParams = z.strictObject({
  legacyThreadId: z
    .string()
    .check(
      z.regex(LEGACY_THREAD_ID, 'must be 1 to 255 characters of A-Z a-z 0-9 _ : . = + -, and not only dots'),
      z.describe('The mailbox’s legacy thread id.'),
    ),
})
