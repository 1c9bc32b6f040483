/* What an integration does in a browser. Runs in the extension's worker and in a page of another origin alike. */
import { ApiError, createClient, syncAttachments } from 'crm-integration-client'

const ACCOUNT_EMAIL = 'orders@ridgeline.example'

/** Stores a thread with one attachment and returns the result of each step. */
export async function storeThread({ baseUrl, token, legacyThreadId, fileName, text }) {
  const client = createClient({ baseUrl, token })
  const context = await client.mail.getThreadContext(legacyThreadId)
  const attachment = { filename: fileName, mime_type: 'text/plain; charset=utf-8', mail_attachment_id: fileName }
  const result = await syncAttachments(client, {
    legacyThreadId,
    accountEmail: ACCOUNT_EMAIL,
    thread: { subject: 'From a browser', messages: [{ id: 'm1', body_plain: 'Hello', attachments: [attachment] }] },
    loadAttachment: () => new Blob([text]),
    verify: true,
  })
  if (result.status !== 'stored') return { context, result }
  const { emailThread } = await client.mail.getEmailThread(legacyThreadId, { account_email: ACCOUNT_EMAIL })
  const { files } = await client.files.list(result.orderId, { legacyThreadId })
  return { context, result, emailThread, files }
}

/** Uploads with another content type than the URL was signed for. */
export async function uploadWrongly({ baseUrl, token, orderId, legacyThreadId }) {
  const client = createClient({ baseUrl, token, maxRetries: 0 })
  const presigned = await client.files.presign(orderId, { fileName: 'wrong', size: 1, legacyThreadId })
  return failureOf(client.files.upload({ ...presigned, contentType: 'text/html' }, new Blob(['x'])))
}

/** Creates a client twice with one key, and returns what a browser can read of the responses' headers. */
export async function createOnce({ baseUrl, token, name }) {
  const client = createClient({ baseUrl: `${baseUrl}/api/v1/`, token })
  const created = await client.clients.create({ company_name: name }, { idempotencyKey: name })
  const again = await client.clients.create({ company_name: name }, { idempotencyKey: name })
  const changed = await client.clients.update(created.id, { phone: '1' }, { ifMatch: created.version })
  const { etag } = await client.clients.getTagged(created.id)
  const { notModified } = await client.clients.getTagged(created.id, { ifNoneMatch: etag })
  const { requests } = client.readRateBudget()
  return { isSame: again.id === created.id, version: changed.version, notModified, limit: requests.limit }
}

/** The parts of an error that a browser can read. */
export async function readError({ baseUrl, token, path }) {
  const response = await fetch(`${baseUrl}/api/v1${path}`, { headers: { authorization: `Bearer ${token}` } })
  return {
    status: response.status,
    body: await response.json(),
    requestId: response.headers.get('x-request-id'),
    retryAfter: response.headers.get('retry-after'),
  }
}

/** Calls until the token's limit is reached, at most `calls` times, and returns the limited response. */
export async function reachLimit({ baseUrl, token, calls }) {
  const isLimited = ({ status }) => status === 429
  for (let sent = 0; sent < calls; sent += 20) {
    const responses = await Promise.all(
      Array.from({ length: 20 }, () => readError({ baseUrl, token, path: '/clients?per_page=1' })),
    )
    const limited = responses.find(isLimited)
    if (limited) return limited
  }
  return null
}

async function failureOf(work) {
  try {
    await work
    return null
  } catch (error) {
    if (!(error instanceof ApiError)) throw error
    const { status, code, details } = error
    return { status, code, details }
  }
}
