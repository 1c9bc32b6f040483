export const DATABASE_BINDING = /^DB(_[A-Z0-9_]{1,40})?$/
