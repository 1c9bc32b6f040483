import { expect, it } from 'vitest'
import { readProduct, SOURCES, suppliers } from '../../../src/resources/products/contract.ts'

it.each(Object.entries(suppliers))(
  '%s has its own name and is a source of search and product info',
  (key, { name }) => {
    expect(name).toBe(key)
    expect(SOURCES).toContain(name)
    expect(readProduct.params.safeParse({ source: name }).success).toBe(true)
  },
)
