/** Hosts of R2, also of its jurisdictions: `ACCOUNT.r2.…`, `ACCOUNT.eu.r2.…`. */
const R2_HOST = /\.r2\.cloudflarestorage\.com$/

/** `s3.REGION`, `s3-REGION`, `s3.dualstack.REGION` and their FIPS forms, alone or behind a bucket. */
const AMAZON_HOST = /^(?:.+\.)?s3(?:-fips)?(?:\.dualstack)?(?:[.-]([a-z]{2}(?:-[a-z]+)+-\d))?\.amazonaws\.com(?:\.cn)?$/

/** The region that an endpoint's host implies, null where it implies none. The global host of S3 is in `us-east-1`. */
export function regionOfHost(host: string): string | null {
  const name = host.toLowerCase()
  if (R2_HOST.test(name)) return 'auto'
  const match = AMAZON_HOST.exec(name)
  return match ? (match[1] ?? 'us-east-1') : null
}
