/** What a company needs to connect to the simulator. Plain data: tests in workerd import it too. */
export interface AccountingCredentials {
  realm_id: string
  client_id: string
  client_secret: string
  refresh_token: string
}

/** Every realm of digits exists; each has its own invoices, tokens and request ids. */
export function credentialsFor(realmId: string): AccountingCredentials {
  return {
    realm_id: realmId,
    client_id: 'local-client',
    client_secret: 'local-client-secret',
    refresh_token: `refresh-${realmId}-first`,
  }
}

export const CREDENTIALS: AccountingCredentials = credentialsFor('1001')

/** The item that lines are booked on. */
export const ITEM_ID = '1'

/** A POST of one of these to `/__books` changes what no client of the API could. No credentials needed. */
export type Steering =
  /** Every access token runs out now. */
  | { action: 'expire_access' }
  /** How long the next access tokens live. */
  | { action: 'set_lifetime'; seconds: number }
  /** The company takes its consent back: no token works any more. */
  | { action: 'revoke_grant'; realm_id: string }
  /** The company connects again: the given refresh token is good from now on. */
  | { action: 'grant'; realm_id: string; refresh_token: string }
  /** An invoice is edited or removed by hand. */
  | { action: 'edit_invoice'; realm_id: string; id: string; fields: Record<string, unknown> }
  | { action: 'remove_invoice'; realm_id: string; id: string }
  /** A vendor or an employee of that name, or a customer who is made inactive. */
  | { action: 'take_name'; realm_id: string; name: string }
  | { action: 'set_active'; realm_id: string; id: string; active: boolean }
  /** Rates in percent by tax code, and the rate that the system chooses by itself. */
  | { action: 'set_taxes'; realm_id: string; codes?: Record<string, number>; automated_rate?: number | null }
  /** Only the token host issues tokens: the API host has no token endpoint. */
  | { action: 'move_tokens' }
  /** Invoices of this date and before can no longer be changed. */
  | { action: 'close_books'; realm_id: string; until: string }

/** Faults for the kit that do not depend on the call. */
export const SPOILT = {
  throttled: { status: 429, headers: { 'retry-after': '60' }, body: '' },
  throttledXml: {
    status: 403,
    headers: { 'content-type': 'application/xml' },
    body: makeXmlFault('3001', 'Slow down'),
  },
  tokenExpired: { status: 401, body: makeLowerFault('3200', 'Token expired', 'AUTHENTICATION') },
  forbidden: { status: 403, body: makeLowerFault('3100', 'Application not authorized', 'AUTHORIZATION') },
  invalidGrant: { status: 400, body: JSON.stringify({ error: 'invalid_grant' }) },
  broken: { status: 500, body: makeFault('10000', 'Internal error') },
  unavailable: { status: 503, headers: { 'content-type': 'text/html' }, body: '<html><body>Unavailable</body></html>' },
  faultInside: { status: 200, body: makeFault('10000', 'Internal error') },
}

export function makeFault(code: string, message: string, detail = message): string {
  return JSON.stringify({
    Fault: { Error: [{ Message: message, Detail: detail, code }], type: 'ValidationFault' },
    time: '2026-01-31T00:00:00.000Z',
  })
}

export function makeLowerFault(code: string, message: string, type: string): string {
  return JSON.stringify({ fault: { error: [{ message, detail: message, code }], type }, time: 1_769_817_600_000 })
}

export function makeXmlFault(code: string, message: string): string {
  return [
    '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>',
    '<Answer xmlns="urn:accounting" time="2026-01-31T00:00:00.000Z"><Fault type="SERVICE">',
    `<Error code="${code}"><Message>message=${message}; errorCode=00${code}</Message><Detail/></Error>`,
    '</Fault></Answer>',
  ].join('')
}
