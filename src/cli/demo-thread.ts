import type { EmailThreadBody, Message } from '../client/index.ts'

/** A thread as read from a mailbox, and the bytes of its attachments. */
export interface DemoThread {
  accountEmail: string
  thread: Omit<EmailThreadBody, 'account_email'>
  /** By `mail_attachment_id`. */
  contents: Map<string, Uint8Array<ArrayBuffer>>
}

interface DemoFile {
  id: string
  name: string
  type: string
  bytes: Uint8Array<ArrayBuffer>
}

const CUSTOMER = { name: 'Ines Duarte', email: 'ines@harbor-rowing.example' }
const US = { name: 'Orders', email: 'orders@ridgeline.example' }
const LARGE_BYTES = 3 * 1_048_576

/** Valid PNG files of one pixel each. */
const LOGO = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=='
const SIGNATURE_IMAGE = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNk+A8AAQUBAScY42YAAAAASUVORK5CYII='

/** Three messages with five attachments: text, images, a larger file, special characters, and two of one name. */
export function makeDemoThread(): DemoThread {
  const sizes = 'size,quantity\nS,6\nM,14\nL,20\nXL,8\n'
  const first: DemoFile[] = [
    { id: 'a1', name: 'logo front (final).png', type: 'image/png', bytes: fromBase64(LOGO) },
    { id: 'a2', name: 'tamanhos & cores +1.csv', type: 'text/csv; charset=utf-8', bytes: fromText(sizes) },
    { id: 'a3', name: 'image001.png', type: 'image/png', bytes: fromBase64(SIGNATURE_IMAGE) },
  ]
  const second: DemoFile[] = [
    { id: 'b1', name: 'bordado 50% maior.dst', type: 'application/octet-stream', bytes: pattern(LARGE_BYTES) },
    { id: 'b2', name: 'image001.png', type: 'image/png', bytes: fromBase64(LOGO) },
  ]
  const messages = [
    message('m1', '2026-03-02T09:30:00Z', 'Jerseys for the regatta', first),
    message('m2', '2026-03-02T15:05:00Z', 'Re: Jerseys for the regatta', []),
    message('m3', '2026-03-03T08:12:00Z', 'Re: Jerseys for the regatta', second),
  ]
  return {
    accountEmail: US.email,
    thread: {
      subject: 'Jerseys for the regatta',
      snippet: 'Here are the logo and the sizes.',
      participants: [CUSTOMER, US],
      labels: ['INBOX'],
      messages,
    },
    contents: new Map([...first, ...second].map(({ id, bytes }) => [id, bytes])),
  }
}

function message(id: string, sentAt: string, subject: string, files: DemoFile[]): Message {
  const isFromUs = files.length === 0
  return {
    id,
    sent_at: sentAt,
    from: isFromUs ? US : CUSTOMER,
    to: [isFromUs ? CUSTOMER : US],
    subject,
    body_plain: isFromUs ? 'Thank you. One question on the sleeves…' : 'Please see what is attached.',
    is_from_us: isFromUs,
    attachments: files.map(({ id, name, type, bytes }) => ({
      filename: name,
      mime_type: type,
      size_bytes: bytes.length,
      mail_attachment_id: id,
    })),
  }
}

function fromText(text: string): Uint8Array<ArrayBuffer> {
  return new TextEncoder().encode(text)
}

function fromBase64(text: string): Uint8Array<ArrayBuffer> {
  return Uint8Array.from(atob(text), (character) => character.charCodeAt(0))
}

/** Deterministic bytes that do not compress well. */
function pattern(length: number): Uint8Array<ArrayBuffer> {
  return Uint8Array.from({ length }, (_, index) => (Math.imul(index, 2_654_435_761) >>> 24) & 0xff)
}
