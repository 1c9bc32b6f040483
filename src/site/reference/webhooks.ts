import * as z from 'zod'
import { EVENT_TYPES } from '../../delivery/webhooks/event-types.ts'
import { component, dateTime } from '../../kernel/api/contract.ts'
import { change } from '../../resources/changes/contract.ts'
import type { JsonObject } from './json.ts'
import type { SchemaWriter } from './schema.ts'

const event = component('Event', 'The body of a message: a change of the feed.', {
  type: z.enum(EVENT_TYPES as [string, ...string[]]),
  timestamp: dateTime.check(z.describe('When the change was made.')),
  data: change,
})

const example = {
  type: 'client.created',
  timestamp: '2026-03-02T09:30:00.000Z',
  data: { type: 'clients', id: 1, operation: 'create', version: 1, time: '2026-03-02T09:30:00.000Z' },
}

/** Headers by the Standard Webhooks convention, and our own. */
const headers: Record<string, [description: string, example: string]> = {
  'webhook-id': ['Identifies the message: the same for every attempt and replay.', 'msg_5f0c9d3e7a1b2c4d6e_1042'],
  'webhook-timestamp': ['When this attempt was made, in seconds since the epoch.', '1772443801'],
  'webhook-signature': [
    '`v1,` and the base64 of the HMAC-SHA256 of `ID.TIMESTAMP.BODY`. Each of the last three secrets also signs for 24 hours after its replacement: its signature follows after a space.',
    'v1,K5oZfzN95Z9UVu1EsfQmfVNQhnkZ2pj9o9NDN/H/pI4=',
  ],
  'x-bookmark': [
    'To be sent with the requests that read what the message names: they then read at least its version.',
    '00000085-0000024c-00004c6d-8e61117bf38d7adb71b934ebbf891683',
  ],
}

export function describeWebhooks(schemas: SchemaWriter): JsonObject {
  return {
    event: {
      post: {
        operationId: 'receiveEvent',
        summary: 'Receive a change',
        description:
          'Sent to each webhook endpoint of the company, for the event types that it has chosen: see Webhooks above. It is sent without a token: its signature shows who sends it.',
        security: [],
        parameters: Object.entries(headers).map(([name, [description, example]]) => ({
          name,
          in: 'header',
          description,
          required: name !== 'x-bookmark',
          schema: { type: 'string' },
          example,
        })),
        requestBody: {
          description: 'The change.',
          required: true,
          content: { 'application/json': { schema: schemas.write(event, 'output'), example } },
        },
        responses: {
          '2XX': { description: 'Received. Anything else is repeated, but for 410.' },
          '410': { description: 'The receiver unsubscribes: the endpoint is disabled.' },
        },
      },
    },
  }
}
