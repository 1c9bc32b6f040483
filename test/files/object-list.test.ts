import { describe, expect, it } from 'vitest'
import { readObjectList } from '../../src/files/s3.ts'

const object =
  '<Contents><Key>a%2Bb+c%20d</Key><Size>3</Size><LastModified>2026-03-02T09:30:00.000Z</LastModified></Contents>'
const list = (inside: string) => `<?xml version="1.0"?><ListBucketResult xmlns="urn:x">${inside}</ListBucketResult>`
const end = '<IsTruncated>false</IsTruncated>'
const url = '<EncodingType>url</EncodingType>'

describe('readObjectList', () => {
  it('reads objects and decodes their keys', () => {
    expect(readObjectList(list(`${end}${url}${object}`))).toEqual({
      files: [{ key: 'a+b c d', sizeBytes: 3, changedAt: Date.parse('2026-03-02T09:30:00.000Z') }],
      cursor: null,
    })
  })

  it('takes keys as they are where the storage did not encode them', () => {
    expect(readObjectList(list(`${end}${object}`)).files[0]?.key).toBe('a%2Bb+c%20d')
  })

  it('reads an empty list', () => {
    expect(readObjectList(list(end))).toEqual({ files: [], cursor: null })
  })

  it('reads the way to the next page', () => {
    const more = '<IsTruncated>true</IsTruncated><NextContinuationToken>a&amp;b=</NextContinuationToken>'
    expect(readObjectList(list(more)).cursor).toBe('a&b=')
  })

  it('ignores what it does not know, even where the names are the same', () => {
    const other = '<Contents><Owner><Key>wrong</Key></Owner>'
    const xml = list(
      `${end}<CommonPrefixes><Prefix>p</Prefix><Size>9</Size></CommonPrefixes>${object.replace('<Contents>', other)}`,
    )
    expect(readObjectList(xml).files.map(({ key }) => key)).toEqual(['a%2Bb+c%20d'])
  })

  it.each([
    ['nothing', ''],
    ['text', 'Not found'],
    ['a page of a proxy', '<html><body>Sorry</body></html>'],
    ['an error', '<Error><Code>SlowDown</Code></Error>'],
    ['a cut answer', list(`${end}${object}`).slice(0, -30)],
    ['a document type', `<!DOCTYPE x [<!ENTITY a "b">]>${list(end)}`],
    ['no word on more', list(object)],
    ['more, and no way to it', list('<IsTruncated>true</IsTruncated>')],
    ['no key', list(`${end}${object.replace(/<Key>.*<\/Key>/, '')}`)],
    ['no size', list(`${end}${object.replace('<Size>3', '<Size>')}`)],
    ['a size in words', list(`${end}${object.replace('<Size>3', '<Size>three')}`)],
    ['no time', list(`${end}${object.replace('2026', 'then')}`)],
    ['a key that cannot be decoded', list(`${end}${url}${object.replace('%2B', '%ZZ')}`)],
    ['a bottomless tree', `${'<a>'.repeat(50)}${'</a>'.repeat(50)}`],
  ])('refuses %s', (_, xml) => {
    expect(() => readObjectList(xml)).toThrow()
  })
})
