export const DATABASE_BINDING = /^DB(_[A-Z0-9_]{1,40})?$/

/** Applied by versions before the first release, whose first migration has the same name and other contents. */
export const BEFORE_RELEASE = '0001_search_and_counts.sql'

/** The largest quota of a company, in bytes. */
export const QUOTA_MAX = 2 ** 40
