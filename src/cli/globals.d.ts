/** Types of the Workers runtime that modules shared with the Worker name; the rest of it would clash with Node's. */
type D1Database = import('@cloudflare/workers-types').D1Database
type CryptoKey = import('node:crypto').webcrypto.CryptoKey
