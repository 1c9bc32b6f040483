/** A thread of HTML mail as shops and their clients write it: styles, long links, quoted replies, some other scripts. */
export interface MailThread {
  account_email: string
  subject: string
  participants: object[]
  labels: string[]
  messages: Message[]
}

interface Message {
  id: string
  sent_at: string
  from: object
  to: object[]
  subject: string
  snippet: string
  body_plain: string
  body_html: string
  is_from_us: boolean
  attachments: object[]
}

const WORDS =
  'the a of to and we you for with your our on in is are please thanks order shirts hoodies print front back sleeve logo colour navy white heather proof artwork vector quote price each total deadline event delivery ship address invoice paid deposit size small medium large approve change before Friday Monday team club school attached file could would need let know kind regards best'.split(
    ' ',
  )
const UNUSUAL = ['Grüße', '“samples”', '👍', 'Zoë', '見積もり', 'спасибо', 'naïve', '—', '½', 'São']

/** The same thread for the same size, whose JSON has about `bytes` bytes of UTF-8. */
export function makeThread(bytes: number): MailThread {
  const random = randomNumbers(20_261)
  const messages: Message[] = []
  let quoted = ''
  let length = 600
  while (length < bytes) {
    const message = makeMessage(random, messages.length, quoted)
    quoted = message.body_html.slice(0, 4_000)
    messages.push(message)
    length += new TextEncoder().encode(JSON.stringify(message)).length + 1
  }
  return {
    account_email: 'sales@shop.example',
    subject: 'Shirts for the regatta',
    participants: [
      { name: 'Ines Duarte', email: 'ines@harbor-rowing.example' },
      { name: 'Sales', email: 'sales@shop.example' },
    ],
    labels: ['INBOX', 'IMPORTANT'],
    messages,
  }
}

/** 20 MiB in one message, of characters in no order: the worst that the Worker may meet. */
export function makeIncompressibleThread(): object {
  return { labels: [], account_email: 'sales@shop.example', messages: [{ text: makeNoise(20 * 1_048_576) }] }
}

/** Characters in no order, the same for the same length. They compress to three quarters. */
export function makeNoise(length: number): string {
  const random = randomNumbers(7)
  return Array.from({ length }, () => String.fromCharCode(35 + Math.floor(random() * 57))).join('')
}

function makeMessage(random: () => number, index: number, quoted: string): Message {
  const paragraphs = Array.from({ length: 3 + Math.floor(random() * 12) }, () => sentence(random))
  const html = paragraphs
    .map(
      (text) =>
        `<p style="margin:0 0 12px;font-family:Arial,Helvetica,sans-serif;font-size:14px;color:#${hex(random, 6)}">${text} <a href="https://links.example/c/${hex(random, 48)}?u=${hex(random, 16)}" target="_blank">${pick(random, WORDS)}</a></p>\r\n`,
    )
    .join('')
  const sender = { name: 'Ines Duarte', email: 'ines@harbor-rowing.example' }
  const us = { name: 'Sales', email: 'sales@shop.example' }
  return {
    id: hex(random, 16),
    sent_at: new Date(Date.UTC(2026, 0, 1) + index * 3_600_000).toISOString(),
    from: index % 2 ? us : sender,
    to: [index % 2 ? sender : us],
    subject: 'Re: Shirts for the regatta',
    snippet: paragraphs[0]?.slice(0, 120) ?? '',
    body_plain: paragraphs.join('\r\n\r\n'),
    body_html: `<html><head><style>.b{border-left:1px solid #ccc;padding-left:8px}</style></head><body>${html}<blockquote class="b">${quoted}</blockquote></body></html>`,
    is_from_us: index % 2 === 1,
    attachments:
      index % 3 ? [] : [{ filename: `logo-${hex(random, 4)}.png`, mime_type: 'image/png', size_bytes: 18_204 }],
  }
}

function sentence(random: () => number): string {
  const words = Array.from({ length: 12 + Math.floor(random() * 40) }, () => {
    const chance = random()
    if (chance < 0.03) return pick(random, UNUSUAL)
    return chance < 0.1 ? String(Math.floor(random() * 100_000)) : pick(random, WORDS)
  })
  return `${words.join(' ')}.`
}

function pick(random: () => number, list: readonly string[]): string {
  return list[Math.floor(random() * list.length)] ?? ''
}

function hex(random: () => number, length: number): string {
  return Array.from({ length }, () => Math.floor(random() * 16).toString(16)).join('')
}

/** Evenly spread from 0 to 1, the same on every run (mulberry32). */
function randomNumbers(seed: number): () => number {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let t = Math.imul(state ^ (state >>> 15), 1 | state)
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t
    return ((t ^ (t >>> 14)) >>> 0) / 4_294_967_296
  }
}
