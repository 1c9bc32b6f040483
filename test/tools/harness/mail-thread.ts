import { createRandom, type Random } from '../../support/random.ts'

/** A thread of HTML mail as shops and their clients write it: styles, long links, quoted replies, some other scripts. */
export type MailThread = ReturnType<typeof makeThread>

const WORDS =
  'the a of to and we you for with your our on in is are please thanks order shirts hoodies print front back sleeve logo colour navy white heather proof artwork vector quote price each total deadline event delivery ship address invoice paid deposit size small medium large approve change before Friday Monday team club school attached file could would need let know kind regards best'.split(
    ' ',
  )
const UNUSUAL = ['Grüße', '“samples”', '👍', 'Zoë', '見積もり', 'спасибо', 'naïve', '—', '½', 'São']

/** The same thread for the same size, whose JSON has about `bytes` bytes of UTF-8. */
export function makeThread(bytes: number) {
  const random = createRandom(20_261)
  const messages: ReturnType<typeof makeMessage>[] = []
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
  const random = createRandom(7)
  return Array.from({ length }, () => String.fromCharCode(35 + random.between(0, 56))).join('')
}

function makeMessage(random: Random, index: number, quoted: string) {
  const paragraphs = Array.from({ length: random.between(3, 14) }, () => sentence(random))
  const html = paragraphs
    .map(
      (text) =>
        `<p style="margin:0 0 12px;font-family:Arial,Helvetica,sans-serif;font-size:14px;color:#${random.hex(6)}">${text} <a href="https://links.example/c/${random.hex(48)}?u=${random.hex(16)}" target="_blank">${random.pick(WORDS)}</a></p>\r\n`,
    )
    .join('')
  const sender = { name: 'Ines Duarte', email: 'ines@harbor-rowing.example' }
  const us = { name: 'Sales', email: 'sales@shop.example' }
  return {
    id: random.hex(16),
    sent_at: new Date(Date.UTC(2026, 0, 1) + index * 3_600_000).toISOString(),
    from: index % 2 ? us : sender,
    to: [index % 2 ? sender : us],
    subject: 'Re: Shirts for the regatta',
    snippet: paragraphs[0]?.slice(0, 120) ?? '',
    body_plain: paragraphs.join('\r\n\r\n'),
    body_html: `<html><head><style>.b{border-left:1px solid #ccc;padding-left:8px}</style></head><body>${html}<blockquote class="b">${quoted}</blockquote></body></html>`,
    is_from_us: index % 2 === 1,
    attachments:
      index % 3 ? [] : [{ filename: `logo-${random.hex(4)}.png`, mime_type: 'image/png', size_bytes: 18_204 }],
  }
}

function sentence(random: Random): string {
  const words = Array.from({ length: random.between(12, 51) }, () => {
    if (random.chance(0.03)) return random.pick(UNUSUAL)
    return random.chance(0.07) ? String(random.between(0, 99_999)) : random.pick(WORDS)
  })
  return `${words.join(' ')}.`
}
