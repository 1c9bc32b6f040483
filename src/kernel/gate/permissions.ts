/** Permissions of tokens. A new token has all permissions unless some are named. */
export const PERMISSIONS = [
  'clients:read',
  'clients:write',
  'orders:read',
  'orders:write',
  'products:read',
  'mail:read',
  'mail:write',
  'files:read',
  'files:write',
] as const

export type Permission = (typeof PERMISSIONS)[number]

export function isPermission(value: string): value is Permission {
  return (PERMISSIONS as readonly string[]).includes(value)
}
