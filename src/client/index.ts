export { chooseOrder, MAX_FILE_BYTES, type SkipReason } from './attachments.ts'
export { type ApiClient, createClient } from './client.ts'
export {
  ApiError,
  type ApiErrorFields,
  CursorExpiredError,
  type ErrorCode,
  type ErrorReason,
  type Issue,
  RETRY_RULES,
} from './errors.ts'
export type { PullPage, PullState, PushedClient, PushedOrder, PushResult } from './lists.ts'
export type { Allowance, RateBudget } from './rate-budget.ts'
export * from './sync.ts'
export type {
  CallOptions,
  ChangeOptions,
  ClientOptions,
  Fetch,
  FileData,
  PutOptions,
  Sleep,
  UploadOptions,
  WriteOptions,
} from './transport.ts'
export type * from './types.ts'
