import fc from 'fast-check'
import { describe, expect, inject, it } from 'vitest'
import { type AddressPolicy, findProblem, isPublicAddress } from '../../../src/kernel/http/outbound.ts'
import type { Fault } from '../../../src/simulators/kit.ts'
import { look, spoil } from '../../../src/simulators/steer.ts'

const NOT_PUBLIC = 'must resolve to public addresses only'
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

describe('isPublicAddress', () => {
  it.each([
    ['1.1.1.1', true],
    ['8.8.8.8', true],
    ['9.255.255.255', true],
    ['11.0.0.0', true],
    ['100.63.255.255', true],
    ['100.128.0.0', true],
    ['172.15.255.255', true],
    ['172.32.0.0', true],
    ['192.167.255.255', true],
    ['223.255.255.255', true],
    ['0.0.0.0', false],
    ['100.64.0.1', false],
    ['168.63.129.16', false],
    ['172.31.255.255', false],
    ['192.0.0.192', false],
    ['192.0.2.1', false],
    ['192.88.99.1', false],
    ['198.18.0.1', false],
    ['198.19.255.255', false],
    ['198.51.100.7', false],
    ['203.0.113.7', false],
    ['224.0.0.1', false],
    ['239.255.255.255', false],
    ['240.0.0.1', false],
    ['255.255.255.255', false],
    ['2606:4700:4700::1111', true],
    ['2A00:1450:4001:82f::200e', true],
    ['2001:4860:4860::8888', true],
    ['2003::1', true],
    ['::', false],
    ['::1', false],
    ['::ffff:8.8.8.8', false],
    ['64:ff9b:1::1', false],
    ['100::1', false],
    ['2001::1', false],
    ['2001:2::1', false],
    ['2001:1ff::1', false],
    ['2001:db8::1', false],
    ['3fff:fff::1', false],
    ['5f00::1', false],
    ['fc00::1', false],
    ['fd00:ec2::254', false],
    ['fe80::1', false],
    ['fec0::1', false],
    ['ff02::1', false],
    ['', false],
    ['x.example', false],
  ])('of %s is %s', (address, isPublic) => {
    expect(isPublicAddress(address)).toBe(isPublic)
  })
})

describe('an address', () => {
  it.each([
    ['https://1.1.1.1/hook', null],
    ['https://1.1.1.1:8443/hook?a=b', null],
    ['https://[2606:4700:4700::1111]/', null],
    ['https://1.1.1.1:80/', 'must have the port 443, or one above 1023'],
    ['https://1.1.1.1:22/', 'must have the port 443, or one above 1023'],
    ['http://1.1.1.1/', 'must be an https address'],
    ['ftp://1.1.1.1/', 'must be an https address'],
    ['file:///etc/passwd', 'must be an https address'],
    ['data:text/plain,x', 'must be an https address'],
    ['https://user@1.1.1.1/', 'must not contain a user name or password'],
    ['https://:x@1.1.1.1/', 'must not contain a user name or password'],
    ['https://1.1.1.1/#a', 'must not contain a fragment'],
    ['nothing', 'must be a URL of at most 2048 characters'],
    [`https://1.1.1.1/${'x'.repeat(2_048)}`, 'must be a URL of at most 2048 characters'],
    ['https://localhost/', NOT_PUBLIC],
    ['https://bucket.localhost/', NOT_PUBLIC],
    ['http://127.0.0.1/', 'must be an https address'],
    ['https://127.1/', NOT_PUBLIC],
    ['https://%31%32%37.1/', NOT_PUBLIC],
    ['https://１２７.0.0.1/', NOT_PUBLIC],
    ['https://[::1]/', NOT_PUBLIC],
    ['https://[0:0:0:0:0:0:0:1]/', NOT_PUBLIC],
    ['https://[fe80::1]/', NOT_PUBLIC],
    ['https://[fe80::1%25eth0]/', 'must be a URL of at most 2048 characters'],
  ])('%s: %s', async (address, problem) => {
    expect(await findProblem(address, DEPLOYED)).toBe(problem)
  })

  it('on a loopback host is accepted in development only, any other as ever', async () => {
    const development = { ...DEPLOYED, allowsLoopback: true }
    const loopback = ['127.0.0.1:9', 'localhost:9', 'bucket.localhost:9', '[::1]', '127.9.9.9']
    for (const host of loopback) expect(await findProblem(`http://${host}/a`, development)).toBeNull()
    for (const host of ['notlocalhost', 'localhost.example', '127.0.0.1.example']) {
      expect(await findProblem(`http://${host}/`, development)).toBe('must be an https address')
    }
    expect(await findProblem('http://10.0.0.1/', development)).toBe('must be an https address')
    expect(await findProblem('https://10.0.0.1/', development)).toBe(NOT_PUBLIC)
    expect(await findProblem('ftp://127.0.0.1/', development)).toBe('must be an https address')
  })

  it.each<[string, Fault[], string | null]>([
    ['to public addresses', [answer('A', '1.1.1.1', '8.8.8.8'), answer('AAAA', '2606:4700::1')], null],
    ['to IPv6 only', [answer('AAAA', '2606:4700::1')], null],
    ['to a private address', [answer('A', '10.0.0.1')], NOT_PUBLIC],
    ['to one private address among public ones', [answer('A', '1.1.1.1', '192.168.1.1')], NOT_PUBLIC],
    ['to a private IPv6 address', [answer('A', '1.1.1.1'), answer('AAAA', 'fd00::1')], NOT_PUBLIC],
    ['to nothing', [], 'has a host that does not resolve to an address'],
    ['to nothing, by HTTP 400', [{ status: 400, times: -1 }], 'has a host that does not resolve to an address'],
    ['to SERVFAIL', [{ body: '{"Status":2}', times: -1 }], 'has a host that does not resolve to an address'],
    ['to REFUSED', [{ body: '{"Status":5}', times: -1 }], 'has a host that does not resolve to an address'],
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

  it('is unknown while one kind of record fails and the other does not exist', async () => {
    const { policy } = await startResolver({ match: 'type=A$', times: -1, status: 500 })
    await expect(findProblem('https://hooks.example/', policy)).rejects.toMatchObject({ failure: 'resolver' })
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
    const byte = fc.nat(255)
    const host = fc.oneof(
      fc.tuple(fc.constant(10), byte, byte, byte),
      fc.tuple(fc.constant(127), byte, byte, byte),
      fc.tuple(fc.constant(192), fc.constant(168), byte, byte),
      fc.tuple(fc.constant(172), fc.integer({ min: 16, max: 31 }), byte, byte),
      fc.tuple(fc.constant(169), fc.constant(254), byte, byte),
      fc.tuple(fc.constant(100), fc.integer({ min: 64, max: 127 }), byte, byte),
    )
    const hex = (number: number) => number.toString(16)
    const notations = ([a, b, c, d]: number[]) => {
      const [one = 0, two = 0, three = 0, four = 0] = [a, b, c, d]
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
