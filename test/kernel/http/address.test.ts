import fc from 'fast-check'
import { describe, expect, inject, it } from 'vitest'
import { type AddressPolicy, findProblem, isPublicAddress } from '../../../src/kernel/http/outbound.ts'
import type { Fault } from '../../../src/simulators/kit.ts'
import { look, spoil } from '../../../src/simulators/steer.ts'

const NOT_PUBLIC = 'must resolve to public addresses only'
const NOT_RESOLVED = 'has a host that does not resolve to an address'
/** Nothing listens there: a literal address is not looked up. */
const DEPLOYED: AddressPolicy = { resolver: 'http://127.0.0.1:9/dns-query', allowsLoopback: false }

/** A resolver of the test's own. */
async function startResolver(...faults: Fault[]) {
  const scope = `${inject('receiverUrl')}/t/${crypto.randomUUID()}`
  await spoil(scope, ...faults)
  return { scope, policy: { resolver: `${scope}/dns-query`, allowsLoopback: false } }
}

function answer(type: 'A' | 'AAAA', ...addresses: string[]): Fault {
  const records = addresses.map((data) => ({ name: 'x', type: type === 'A' ? 1 : 28, TTL: 1, data }))
  const body = JSON.stringify({ Status: 0, Answer: [{ name: 'x', type: 5, TTL: 1, data: 'y.example.' }, ...records] })
  return { match: `type=${type}$`, times: -1, body }
}

/** The first and last addresses beside reserved ranges, and some within. */
const PUBLIC = `1.1.1.1 8.8.8.8 9.255.255.255 11.0.0.0 100.63.255.255 100.128.0.0 172.15.255.255 172.32.0.0 192.167.255.255
  223.255.255.255 2606:4700:4700::1111 2A00:1450:4001:82f::200e 2001:4860:4860::8888 2003::1`
const RESERVED = `0.0.0.0 100.64.0.1 168.63.129.16 172.31.255.255 192.0.0.192 192.0.2.1 192.88.99.1 198.18.0.1 198.19.255.255
  198.51.100.7 203.0.113.7 224.0.0.1 239.255.255.255 240.0.0.1 255.255.255.255 :: ::1 ::ffff:8.8.8.8 64:ff9b:1::1 100::1
  2001::1 2001:2::1 2001:1ff::1 2001:db8::1 3fff:fff::1 5f00::1 fc00::1 fd00:ec2::254 fe80::1 fec0::1 ff02::1 x.example`

describe('isPublicAddress', () => {
  it.each(PUBLIC.split(/\s+/))('is true of %s', (address) => expect(isPublicAddress(address)).toBe(true))

  it.each(['', ...RESERVED.split(/\s+/)])('is false of %s', (address) => expect(isPublicAddress(address)).toBe(false))
})

describe('an address', () => {
  it.each<[problem: string | null, addresses: string]>([
    [null, 'https://1.1.1.1/hook https://1.1.1.1:8443/hook?a=b https://[2606:4700:4700::1111]/'],
    ['must have the port 443, or one above 1023', 'https://1.1.1.1:80/ https://1.1.1.1:22/'],
    [
      'must be an https address',
      'http://1.1.1.1/ http://127.0.0.1/ ftp://1.1.1.1/ file:///etc/passwd data:text/plain,x',
    ],
    ['must not contain a user name or password', 'https://user@1.1.1.1/ https://:x@1.1.1.1/'],
    ['must not contain a fragment', 'https://1.1.1.1/#a'],
    [
      'must be a URL of at most 2048 characters',
      `nothing https://1.1.1.1/${'x'.repeat(2_048)} https://[fe80::1%25eth0]/`,
    ],
    [
      NOT_PUBLIC,
      'https://localhost/ https://bucket.localhost/ https://127.1/ https://%31%32%37.1/ https://１２７.0.0.1/',
    ],
    [NOT_PUBLIC, 'https://[::1]/ https://[0:0:0:0:0:0:0:1]/ https://[fe80::1]/'],
  ])('has the problem: %s', async (problem, addresses) => {
    for (const address of addresses.split(' ')) expect(await findProblem(address, DEPLOYED), address).toBe(problem)
  })

  it('on a loopback host is accepted in development only, any other as ever', async () => {
    const development = { ...DEPLOYED, allowsLoopback: true }
    const loopback = ['127.0.0.1:9', 'localhost:9', 'bucket.localhost:9', '[::1]', '127.9.9.9']
    for (const host of loopback) expect(await findProblem(`http://${host}/a`, development)).toBeNull()
    const others = ['notlocalhost', 'localhost.example', '127.0.0.1.example', '10.0.0.1'].map(
      (host) => `http://${host}/`,
    )
    for (const address of [...others, 'ftp://127.0.0.1/']) {
      expect(await findProblem(address, development)).toBe('must be an https address')
    }
    expect(await findProblem('https://10.0.0.1/', development)).toBe(NOT_PUBLIC)
  })

  it.each<[string, Fault[], string | null]>([
    ['to public addresses', [answer('A', '1.1.1.1', '8.8.8.8'), answer('AAAA', '2606:4700::1')], null],
    ['to IPv6 only', [answer('AAAA', '2606:4700::1')], null],
    ['to a private address', [answer('A', '10.0.0.1')], NOT_PUBLIC],
    ['to one private address among public ones', [answer('A', '1.1.1.1', '192.168.1.1')], NOT_PUBLIC],
    ['to a private IPv6 address', [answer('A', '1.1.1.1'), answer('AAAA', 'fd00::1')], NOT_PUBLIC],
    ['to nothing', [], NOT_RESOLVED],
    ['to nothing, by HTTP 400', [{ status: 400, times: -1 }], NOT_RESOLVED],
    ['to SERVFAIL', [{ body: '{"Status":2}', times: -1 }], NOT_RESOLVED],
    ['to REFUSED', [{ body: '{"Status":5}', times: -1 }], NOT_RESOLVED],
    ['to SERVFAIL for IPv6 alone', [answer('A', '1.1.1.1'), { match: 'type=AAAA$', body: '{"Status":2}' }], null],
  ])('whose host resolves %s', async (_, faults, problem) => {
    const { policy } = await startResolver(...faults)
    expect(await findProblem('https://hooks.example/a', policy)).toBe(problem)
  })

  it.each<[string, Fault]>([
    ['fails', { status: 500 }],
    ['does not respond', { destroy: true }],
    ['responds with something else', { body: '<html>' }],
    ['responds with too much', { body: `{"Status":0,"x":"${'x'.repeat(100_000)}"}` }],
    ['fails for one kind of record and the other does not exist', { match: 'type=A$', status: 500 }],
  ])('is unknown while the resolver %s', async (_, fault) => {
    const { policy } = await startResolver({ ...fault, times: -1 })
    await expect(findProblem('https://hooks.example/', policy)).rejects.toMatchObject({ failure: 'resolver' })
  })

  it('is known by one kind of record while the other fails, and the other is asked for again', async () => {
    const failing: Fault = { match: 'type=AAAA$', status: 500 }
    const { policy } = await startResolver(answer('A', '1.1.1.1'), failing, answer('AAAA', 'fd00::1'))
    expect(await findProblem('https://half.example/', policy)).toBeNull()
    expect(await findProblem('https://half.example/', policy)).toBe(NOT_PUBLIC)
  })

  it('is looked up by its host alone', async () => {
    const { scope, policy } = await startResolver(answer('A', '1.1.1.1'))
    await findProblem('https://hooks.example:8443/secret?token=x', policy)
    const { calls } = await look(scope)
    expect(calls.map(({ path }) => path).sort()).toEqual([
      '/dns-query?name=hooks.example&type=A',
      '/dns-query?name=hooks.example&type=AAAA',
    ])
    expect(calls.every(({ headers }) => headers.accept === 'application/dns-json')).toBe(true)
  })

  it('in a private network is refused in whatever notation', async () => {
    const between = (first: number, min: number, max: number) =>
      fc.tuple(fc.constant(first), fc.integer({ min, max }), fc.nat(255), fc.nat(255))
    const host = fc.oneof(
      ...[between(10, 0, 255), between(127, 0, 255), between(192, 168, 168)],
      ...[between(172, 16, 31), between(169, 254, 254), between(100, 64, 127)],
    )
    const hex = (number: number) => number.toString(16)
    const notations = ([one, two, three, four]: [number, number, number, number]) => {
      const number = ((one * 256 + two) * 256 + three) * 256 + four
      const groups = `${hex(one * 256 + two)}:${hex(three * 256 + four)}`
      return [
        `${one}.${two}.${three}.${four}`,
        String(number),
        `0x${hex(number)}`,
        `0${number.toString(8)}`,
        `0${one.toString(8)}.0x${hex(two)}.${three * 256 + four}`,
        `${one}.${two}.${three}.${four}.`,
        `[::ffff:${groups}]`,
        `[::${groups}]`,
        `[64:ff9b::${groups}]`,
        `[2002:${groups}::1]`,
        `[2001:0:1:2:3:4:${groups}]`,
      ]
    }
    await fc.assert(
      fc.asyncProperty(host, async (bytes) => {
        for (const notation of notations(bytes)) {
          expect(await findProblem(`https://${notation}/`, DEPLOYED), notation).toBe(NOT_PUBLIC)
        }
      }),
      { numRuns: 300 },
    )
  })
})
