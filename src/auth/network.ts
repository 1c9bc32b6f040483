/**
 * The network whose addresses one caller may use at will, in one spelling: an IPv4 address as it is, the /64 of an IPv6
 * address (RFC 4291 section 2.2), and the IPv4 address of an IPv4-mapped one. Other text is returned as it is, cut.
 */
export function networkOf(address: string): string {
  const [text = ''] = address.slice(0, 64).toLowerCase().replace('[', '').split(/[%\]]/)
  const ipv4 = parseIpv4(text)
  if (ipv4) return ipv4.join('.')
  const groups = parseIpv6(text)
  if (!groups) return text
  const [high = 0, low = 0] = groups.slice(6)
  const isMapped = groups.slice(0, 5).every((group) => group === 0) && groups[5] === 0xffff
  if (isMapped) return [high >> 8, high & 0xff, low >> 8, low & 0xff].join('.')
  return `${groups
    .slice(0, 4)
    .map((group) => group.toString(16))
    .join(':')}::/64`
}

function parseIpv4(text: string): number[] | null {
  if (!/^\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}$/.test(text)) return null
  const bytes = text.split('.').map(Number)
  return bytes.every((byte) => byte <= 255) ? bytes : null
}

/** The eight groups of an IPv6 address, or null. */
function parseIpv6(text: string): number[] | null {
  const [head = '', tail, ...more] = text.split('::')
  if (more.length > 0) return null
  const before = parseGroups(head, tail === undefined)
  const after = tail === undefined ? [] : parseGroups(tail, true)
  if (!before || !after) return null
  const missing = 8 - before.length - after.length
  if (tail === undefined ? missing !== 0 : missing < 1) return null
  return [...before, ...Array.from({ length: missing }, () => 0), ...after]
}

/** @param isLast whether the last group may be an IPv4 address, which stands for two */
function parseGroups(text: string, isLast: boolean): number[] | null {
  if (text === '') return []
  const parts = text.split(':')
  const groups = parts.flatMap((part, index) => {
    const bytes = isLast && index === parts.length - 1 ? parseIpv4(part) : null
    if (bytes) {
      const [a = 0, b = 0, c = 0, d = 0] = bytes
      return [a * 256 + b, c * 256 + d]
    }
    return /^[0-9a-f]{1,4}$/.test(part) ? [Number.parseInt(part, 16)] : [Number.NaN]
  })
  return groups.some(Number.isNaN) ? null : groups
}
