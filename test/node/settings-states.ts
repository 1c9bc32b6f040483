import { EVENT_TYPES } from '../../src/delivery/webhooks/event-types.ts'

/** Responses of the administration API that show every state which the settings know, by path below `/admin/v1`. */
const DAY_MS = 86_400_000
const HOUR_MS = 3_600_000
const now = Math.floor(Date.now() / HOUR_MS) * HOUR_MS
const at = (ms: number) => new Date(now + ms).toISOString()
const page = <Item>(data: Item[], next_cursor: string | null = null) => ({
  data,
  pagination: { per_page: 100, next_cursor, has_more: next_cursor !== null },
})

const TOKEN = {
  id: 1,
  company_id: 1,
  name: 'Warehouse sync',
  permissions: ['clients:read', 'clients:write', 'orders:read', 'orders:write', 'products:read', 'files:read'],
  state: 'active',
  created_at: at(-40 * DAY_MS),
  created_by: 'owner@ridgeline.example',
  last_used_at: at(-3 * HOUR_MS),
  expires_at: at(50 * DAY_MS),
  revoked_at: null,
}

const USED = Array.from({ length: 24 }, (_, index) => ({
  hour: at((index - 23) * HOUR_MS),
  requests: Math.round(400 + 390 * Math.sin(index / 3)),
  refused: index === 9 ? 120 : 0,
  database_ms: Math.round(4_000 + 3_900 * Math.sin(index / 3)),
}))

const sum = (field: 'requests' | 'refused' | 'database_ms') => USED.reduce((total, hour) => total + hour[field], 0)

const EVENT = {
  company_id: 1,
  operation: 'update',
  attempts: 1,
  next_attempt_at: null,
  created_at: at(-2 * DAY_MS),
  updated_at: at(-HOUR_MS),
}

const INTEGRATION = {
  enabled: true,
  base_url: 'https://supplier.example/api',
  settings: {},
  state: 'connected',
  reason: null,
  paused_until: null,
  updated_at: at(-20 * DAY_MS),
}

const ENDPOINT = {
  company_id: 1,
  event_types: EVENT_TYPES,
  enabled: true,
  disabled_reason: null,
  behind: 0,
  removed_changes: 0,
  replaying: false,
  created_at: at(-90 * DAY_MS),
  updated_at: at(-90 * DAY_MS),
}

export const RESPONSES: Record<string, unknown> = {
  '/me': {
    actor: 'owner@ridgeline.example',
    operator: false,
    companies: [
      { id: 1, name: 'Ridgeline Custom Apparel', role: 'owner' },
      { id: 2, name: 'Harbor Print & Stitch', role: 'developer' },
    ],
  },
  '/companies/1': {
    id: 1,
    name: 'Ridgeline Custom Apparel',
    database: 'DB',
    suspended: false,
    currency: 'USD',
    accounting_sync_enabled: true,
    deliveries_paused: false,
    client_count: 60,
    order_count: 80,
    mail_bytes: 2_040_109_466,
    mail_quota_bytes: 2_147_483_648,
    stored_bytes: 412_500,
    storage_quota_bytes: 2_147_483_648,
    created_at: at(-90 * DAY_MS),
    updated_at: at(-DAY_MS),
  },
  '/companies/1/tokens': page([
    TOKEN,
    { ...TOKEN, id: 2, name: 'A name without spaces_'.replaceAll(' ', '_').repeat(10), permissions: ['mail:read'] },
    { ...TOKEN, id: 3, name: 'Never used', last_used_at: null, expires_at: null, created_by: null },
    { ...TOKEN, id: 4, name: 'Old script', state: 'revoked', revoked_at: at(-DAY_MS) },
    { ...TOKEN, id: 5, name: 'Trial', state: 'expired', expires_at: at(-DAY_MS) },
  ]),
  '/companies/1/usage': {
    data: USED,
    totals: { requests: sum('requests'), refused: sum('refused'), database_ms: sum('database_ms') },
    incomplete: true,
  },
  '/companies/1/integrations': {
    data: [
      {
        ...INTEGRATION,
        kind: 'accounting_sync',
        base_url: 'https://accounting.example',
        settings: { token_url: null },
        state: 'reconnect_needed',
        reason: 'The access token was refused (invalid_grant)',
      },
      { ...INTEGRATION, kind: 'supplier_a', enabled: false, state: 'disabled' },
      { ...INTEGRATION, kind: 'supplier_b' },
    ],
  },
  '/companies/1/accounting-events': page([
    {
      ...EVENT,
      id: 5,
      order_id: 1002,
      state: 'parked',
      last_error: 'Several customers have the name “Harbor Rowing Club”: link the client to one of them',
    },
    {
      ...EVENT,
      id: 6,
      order_id: 1003,
      operation: 'create',
      state: 'dead',
      attempts: 12,
      last_error: '400 '.repeat(80),
    },
    { ...EVENT, id: 7, order_id: 1004, state: 'pending', next_attempt_at: at(2 * HOUR_MS), last_error: 'HTTP 503' },
  ]),
  '/companies/1/webhooks': page([
    { ...ENDPOINT, id: 'we_0123456789abcdef01', url: 'https://hooks.example/crm' },
    { ...ENDPOINT, id: 'we_0123456789abcdef02', url: 'https://hooks.example/replay', replaying: true, behind: 1 },
    {
      ...ENDPOINT,
      id: 'we_0123456789abcdef03',
      url: `https://hooks.example/${'long/'.repeat(40)}`,
      event_types: ['order.created', 'order.updated'],
      enabled: false,
      disabled_reason: 'A delivery was answered with 410',
      behind: 1_234,
      removed_changes: 200,
    },
  ]),
  '/companies/1/webhooks/we_0123456789abcdef03/deliveries': page([
    {
      sequence: 812,
      event_type: 'order.updated',
      entity_id: '1002',
      attempts: 4,
      first_attempt_at: at(-HOUR_MS),
      next_attempt_at: at(3 * HOUR_MS),
      last_error: 'The endpoint responded with 500',
    },
    {
      sequence: 813,
      event_type: null,
      entity_id: '1002',
      attempts: 0,
      first_attempt_at: null,
      next_attempt_at: null,
      last_error: null,
    },
  ]),
  '/companies/1/members': page([
    { email: 'owner@ridgeline.example', role: 'owner', created_at: at(-90 * DAY_MS) },
    { email: 'developer@ridgeline.example', role: 'developer', created_at: at(-30 * DAY_MS) },
  ]),
  '/companies/1/audit': page(
    Array.from({ length: 12 }, (_, index) => ({
      time: at(-index * HOUR_MS),
      actor: 'owner@ridgeline.example',
      token_id: null,
      action: index % 3 === 0 ? 'tokens.revoke' : 'members.put',
      entity_id: index % 3 === 0 ? String(index) : 'developer@ridgeline.example',
      address: '2001:db8:85a3:8d3:1319:8a2e:370:7348',
      request_id: '3f1c2a9e-7d54-4a39-9d0e-2b1f6f6f1a10',
    })),
    'next',
  ),
}
