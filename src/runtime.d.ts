/** What the runtime has and the type packages of this project do not declare; only what is used. */

declare module 'node:buffer' {
  export function isUtf8(bytes: Uint8Array): boolean
}

declare module 'node:zlib' {
  export const constants: { BROTLI_PARAM_QUALITY: number }
  export function brotliCompressSync(bytes: Uint8Array, options: { params: Record<number, number> }): Uint8Array
  export function brotliDecompressSync(bytes: Uint8Array, options: { maxOutputLength: number }): Uint8Array
}

interface Uint8Array<TArrayBuffer extends ArrayBufferLike = ArrayBufferLike> {
  toBase64(): string
}

interface Uint8ArrayConstructor {
  fromBase64(text: string): Uint8Array<ArrayBuffer>
}
