export interface Answer {
  /** 0 without a response, as when the service is killed or takes longer than it may; the body says why. */
  status: number
  headers: Headers
  // biome-ignore lint/suspicious/noExplicitAny: the checks read bodies freely
  body: any
}

/**
 * One request for JSON, on a connection of its own: the service may have closed one that is kept, or was killed since.
 */
export async function ask(
  { url }: { url: string },
  token: string,
  method: string,
  path: string,
  options: { body?: object | undefined; headers?: Record<string, string>; timeoutMs: number },
): Promise<Answer> {
  const { body, headers, timeoutMs } = options
  try {
    const response = await fetch(url + path, {
      method,
      headers: {
        ...{ connection: 'close', authorization: `Bearer ${token}` },
        ...(body && { 'content-type': 'application/json' }),
        ...headers,
      },
      signal: AbortSignal.timeout(timeoutMs),
      ...(body && { body: JSON.stringify(body) }),
    })
    const text = await response.text()
    return { status: response.status, headers: response.headers, body: JSON.parse(text) }
  } catch (error) {
    const cause = error instanceof Error && error.cause ? ` (${error.cause})` : ''
    return { status: 0, headers: new Headers(), body: `${error}${cause}` }
  }
}
