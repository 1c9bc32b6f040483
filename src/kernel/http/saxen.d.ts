/** The package has no types. These are what `xml.ts` uses. */
declare module 'saxen' {
  export class Parser {
    /** Any thrown error ends {@link parse}. Without a handler of its own, so does a syntax error. */
    on(event: 'text' | 'cdata' | 'openTag' | 'closeTag', handle: (text: string) => void): this
    on(event: 'warn', handle: (error: Error) => void): this
    parse(xml: string): void
  }
}
