export { chooseOrder, MAX_FILE_BYTES, type SkipReason } from './attachment-plan.ts'
export {
  type ApiClient,
  type ClientListQuery,
  createClient,
  type EmailThreadAnswer,
  type OrderListQuery,
  type UploadOptions,
} from './client.ts'
export { ApiError, type ApiErrorFields, type ErrorCode } from './errors.ts'
export type * from './mail-types.ts'
export {
  type AttachmentOutcome,
  type SyncOptions,
  type SyncProgress,
  type SyncResult,
  syncAttachments,
} from './sync-attachments.ts'
export type { CallOptions, ClientOptions, Fetch, Sleep } from './transport.ts'
export type * from './types.ts'
