import { expect, it } from 'vitest'
import { readXml } from '../../../src/kernel/http/xml.ts'

/** The texts of a document by the paths of their elements. */
function textsOf(xml: string, maxDepth = 8): Record<string, string> {
  const texts: Record<string, string> = {}
  readXml(xml, maxDepth, {
    open: () => undefined,
    close: (path, text) => {
      texts[path.join('/')] = text
    },
  })
  return texts
}

const WHOLE = '<?xml version="1.0"?>\n<n:a xmlns:n="urn:x"><n:b c="1 > 0">x &amp; y</n:b><d/></n:a>\n'

it('readXml reads texts by the local names of their elements', () => {
  expect(textsOf(WHOLE)).toEqual({ a: '', 'a/b': 'x & y', 'a/d': '' })
})

it.each([
  ['the five entities', '<a>&amp;&lt;&gt;&apos;&quot;</a>', '&<>\'"'],
  ['numeric references, beyond 16 bits too', '<a>&#65;&#x42;&#128512;&#x1F600;</a>', 'AB😀😀'],
  ['a reference once only', '<a>&amp;lt;</a>', '&lt;'],
  ['CDATA as it is', '<a>x<![CDATA[<&amp;>]]>y</a>', 'x<&amp;>y'],
  ['many references', `<a>${'&amp;'.repeat(20_000)}</a>`, '&'.repeat(20_000)],
  ['text around a comment and an instruction', '<a>x<!-- <b> --><?p?>y</a>', 'xy'],
])('readXml reads %s', (_, xml, text) => expect(textsOf(xml)).toEqual({ a: text }))

it('readXml refuses a document that is cut off anywhere', () => {
  const whole = WHOLE.trimEnd()
  for (let end = 0; end < whole.length; end++) expect(() => textsOf(whole.slice(0, end))).toThrow()
})

it.each([
  ['another text', 'hello'],
  ['no element', '<!-- x -->'],
  ['a document type', '<!DOCTYPE a><a/>'],
  ['an entity in lower case', '<!entity a "b"><a/>'],
  ['an unknown entity', '<a>&nbsp;</a>'],
  ['a bare ampersand', '<a>x & y</a>'],
  ['a reference beyond Unicode', '<a>&#x110000;</a>'],
  ['a reference to half a character', '<a>&#xD800;</a>'],
  ['a reference to NUL', '<a>&#0;</a>'],
  ['tags that do not match', '<a><b></a></b>'],
  ['a bare angle bracket', '<a>1 < 2</a>'],
  ['an end without a start', '<a/></a>'],
  ['two roots', '<a/><b/>'],
  ['text after the root', '<a/>x'],
  ['text before the root', 'x<a/>'],
  ['a text full of references, which are held at once', `<a>${'&amp;'.repeat(20_001)}</a>`],
  ['HTML', '<html><body><p>x<br></body></html>'],
  ['elements that are nested too deep', '<a>'.repeat(9) + '</a>'.repeat(9)],
])('readXml refuses %s', (_, xml) => expect(() => textsOf(xml)).toThrow())
