import * as z from 'zod/mini'
import { makeNoAnswer, sendRequest } from './transport.ts'

/** What stands for a company's consent. Kept encrypted by the caller. */
export interface AccountingTokens {
  refreshToken: string
  accessToken: string | null
  /** Somewhat before its end, so that it does not run out on the way. */
  accessGoodUntilMs: number
}

export interface TokenSettings {
  tokenUrl: string
  clientId: string
  clientSecret: string
}

/**
 * The documented token addresses of API hosts that give no tokens themselves: production and sandbox share one. The one
 * place with real host names, since no company could connect without knowing them.
 */
const TOKEN_URLS: ReadonlyMap<string, string> = new Map([
  ['quickbooks.api.intuit.com', 'https://oauth.platform.intuit.com/oauth2/v1/tokens/bearer'],
  ['sandbox-quickbooks.api.intuit.com', 'https://oauth.platform.intuit.com/oauth2/v1/tokens/bearer'],
])

/** Where tokens are given unless the integration says otherwise. @param baseUrl without a slash at its end */
export function getDefaultTokenUrl(baseUrl: string): string {
  return TOKEN_URLS.get(new URL(baseUrl).hostname) ?? `${baseUrl}/oauth2/v1/tokens/bearer`
}

const LONGEST_MARGIN_MS = 60_000
const DEFAULT_LIFETIME_S = 3_600

const tokenAnswer = z.object({
  access_token: z.string().check(z.minLength(1), z.maxLength(8_192)),
  refresh_token: z.optional(z.string().check(z.minLength(1), z.maxLength(8_192))),
  expires_in: z.catch(z.coerce.number().check(z.positive(), z.maximum(86_400)), DEFAULT_LIFETIME_S),
})

export interface TokenKeeper {
  /**
   * Gives an access token that is good by our clock and is not `refused`.
   *
   * @throws AccountingError when the consent is lost or the token endpoint fails; whatever `saveTokens` throws
   */
  getAccessToken: (refused?: string) => Promise<string>
  /** Everything secret, to be redacted in messages. */
  listSecrets: () => string[]
}

/**
 * Keeps the access token of one company fresh (RFC 6749, section 6).
 *
 * The refresh token rotates: the old one is void once the new one is given, so the new one is stored before anything
 * is done with it. When storing fails, the new pair is kept and stored at the next need, never renewed again. However
 * many calls need a token at once, one refresh is made.
 */
export function createTokenKeeper(
  settings: TokenSettings,
  initial: AccountingTokens,
  saveTokens: (tokens: AccountingTokens) => Promise<void>,
  nowMs: () => number,
  timeoutMs: number,
): TokenKeeper {
  let tokens = initial
  let unsaved: AccountingTokens | null = null
  let renewal: Promise<void> | null = null

  function isGood(refused?: string): boolean {
    const { accessToken, accessGoodUntilMs } = tokens
    return !unsaved && accessToken !== null && accessToken !== refused && nowMs() < accessGoodUntilMs
  }

  async function renew(): Promise<void> {
    unsaved ??= await requestTokens(settings, tokens, nowMs, timeoutMs)
    await saveTokens(unsaved)
    tokens = unsaved
    unsaved = null
  }

  return {
    async getAccessToken(refused) {
      if (!isGood(refused)) {
        renewal ??= renew().finally(() => {
          renewal = null
        })
        await renewal
      }
      return tokens.accessToken ?? ''
    },
    listSecrets: () => listSecrets(settings, tokens),
  }
}

function listSecrets(settings: TokenSettings, tokens: AccountingTokens): string[] {
  const { refreshToken, accessToken } = tokens
  return [settings.clientSecret, refreshToken, ...(accessToken === null ? [] : [accessToken]), encodeBasic(settings)]
}

async function requestTokens(
  settings: TokenSettings,
  tokens: AccountingTokens,
  nowMs: () => number,
  timeoutMs: number,
): Promise<AccountingTokens> {
  const askedAtMs = nowMs()
  const json = await sendRequest({
    endpoint: 'token',
    method: 'POST',
    url: settings.tokenUrl,
    headers: {
      authorization: `Basic ${encodeBasic(settings)}`,
      accept: 'application/json',
      'content-type': 'application/x-www-form-urlencoded',
    },
    body: new URLSearchParams({ grant_type: 'refresh_token', refresh_token: tokens.refreshToken }).toString(),
    timeoutMs,
    secrets: listSecrets(settings, tokens),
  })
  const answer = tokenAnswer.safeParse(json)
  if (!answer.success) throw makeNoAnswer('malformed')
  const lifetimeMs = answer.data.expires_in * 1_000
  return {
    refreshToken: answer.data.refresh_token ?? tokens.refreshToken,
    accessToken: answer.data.access_token,
    accessGoodUntilMs: askedAtMs + lifetimeMs - Math.min(LONGEST_MARGIN_MS, lifetimeMs / 10),
  }
}

function encodeBasic({ clientId, clientSecret }: TokenSettings): string {
  return btoa(String.fromCharCode(...new TextEncoder().encode(`${clientId}:${clientSecret}`)))
}
