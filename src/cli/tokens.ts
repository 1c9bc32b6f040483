import * as z from 'zod/mini'
import { idText } from '../kernel/api/contract.ts'
import { PERMISSIONS } from '../kernel/gate/permissions.ts'
import * as api from '../operation/admin/tokens/contract.ts'
import { CommandError, optional, required, runCommand, someOf } from './command.ts'
import { listing, operation, request, time } from './operator.ts'

const HELP = `'create' prints a new token once, alone on standard output with 'npm run -s'. 'list' shows names, permissions
and times. 'rotate' prints the successor of one in the same way, and ends the old one. 'revoke' ends one, everywhere
within 30 seconds. A company has at most ${api.ACTIVE_TOKENS_MAX} active tokens; 'list --company ID' counts them. Both tokens of
a rotation count until the old one ends: with ${api.ACTIVE_TOKENS_MAX} of them use '--overlap 0s'.

  --company ID       of the company, as in its seed file
  --name NAME        what the token is for
  --permissions a,b  some of those below; by default all
  --expires DATE     the last day (2027-01-31, UTC), or a date-time with an offset; by default never
  --overlap TIME     how long the old token stays valid, such as 15m, 24h or 7d, the most; by default 24h

Permissions:
  ${PERMISSIONS.join(', ')}`

const UNITS: Record<string, number> = { s: 1, m: 60, h: 3600, d: 86_400 }
const duration = z.string().check(z.regex(/^\d{1,6}[smhd]$/, 'must be a time such as 15m, 24h or 7d'))
const toSeconds = z.transform((text: string) => Number(text.slice(0, -1)) * (UNITS[text.slice(-1)] ?? 0))
const overlap = z.pipe(duration, toSeconds).check(z.refine((seconds) => seconds <= 7 * 86_400, 'must be at most 7d'))

const ID = { ...required('ID', idText), find: api.listAllTokens }

await runCommand('tokens', HELP, {
  create: request({
    contract: api.createToken,
    arguments: {
      company_id: required('--company ID', idText),
      name: required('--name NAME', api.createToken.body.shape.name),
      permissions: optional('--permissions a,b', someOf(PERMISSIONS)),
      expires_at: optional('--expires DATE', time('end')),
    },
    print: ({ token }) => token,
  }),
  list: listing({
    contract: api.listAllTokens,
    arguments: { company_id: optional('--company ID', idText) },
    columns: {
      ID: 'id',
      COMPANY: 'company_id',
      NAME: 'name',
      STATE: 'state',
      CREATED: 'created_at',
      'LAST USED': 'last_used_at',
      EXPIRES: 'expires_at',
      PERMISSIONS: ({ permissions }) => (permissions.length === PERMISSIONS.length ? 'all' : permissions),
    },
    after: (tokens, { company_id }) => {
      if (company_id === undefined) return
      const active = tokens.filter(({ state }) => state === 'active').length
      console.log(`${active} of at most ${api.ACTIVE_TOKENS_MAX} active tokens.`)
    },
  }),
  rotate: request({
    contract: api.rotateToken,
    arguments: { token_id: ID, overlap_seconds: optional('--overlap TIME', overlap) },
    print: ({ token }) => token,
  }),
  revoke: operation({ token_id: ID }, async (service, { token_id }) => {
    const { data } = await service.call(api.listAllTokens, { query: { id: token_id } })
    if (!data[0]) throw new CommandError(`There is no token ${token_id}.`)
    const { company_id, name, revoked_at } = data[0]
    // An earlier call may have ended before it stored the revocation in KV, which a recovery reads.
    await service.call(api.revokeToken, { params: { company_id, token_id }, isRepeatable: true })
    const already = `Token ${token_id} (${name}) was revoked at ${revoked_at} already.`
    console.log(revoked_at === null ? `Revoked token ${token_id} (${name}).` : already)
  }),
})
