import { isoTime } from '../http/contract.ts'
import { sourceOf } from './keys.ts'
import type { StoredFile } from './storage.ts'

/** The file entry of the contract. */
export function presentFile({ key, sizeBytes, changedAt }: StoredFile) {
  return {
    path: key,
    objectName: key.slice(key.lastIndexOf('/') + 1),
    length: sizeBytes,
    lastChanged: isoTime(changedAt),
    source: sourceOf(key),
  }
}
