import { BUDGET_MS, withDeadline } from '../../kernel/http/deadline.ts'
import {
  BackupError,
  type BackupName,
  type Line,
  type Manifest,
  manifestKey,
  manifestPrefix,
  type Part,
  parseManifest,
  parseManifestKey,
  unpackPart,
} from './format.ts'

interface Store {
  bucket: R2Bucket
  companyId: number
}

/** Lists a company's complete backups, oldest first: about 42, since each is kept for 35 to 42 days. */
export async function listBackups({ bucket, companyId }: Store): Promise<BackupName[]> {
  const prefix = manifestPrefix(companyId)
  const { objects } = await withDeadline(bucket.list({ prefix }), BUDGET_MS.storage)
  return objects.flatMap(({ key }) => parseManifestKey(companyId, key) ?? [])
}

/** @throws BackupError when it is missing or damaged */
export async function readManifest({ bucket, companyId }: Store, backup: BackupName): Promise<Manifest> {
  const key = manifestKey(companyId, backup)
  const manifest = parseManifest(await read(bucket, key, (object) => object.text()), key)
  if (manifestKey(manifest.company_id, manifest) !== key) throw new BackupError(`${key} is misplaced.`)
  return manifest
}

/** Reads the rows of a part. @throws BackupError when it is missing or damaged */
export async function readPart({ bucket }: Store, part: Part): Promise<Line[]> {
  return unpackPart(part, await read(bucket, part.key, async (object) => new Uint8Array(await object.arrayBuffer())))
}

function read<T>(bucket: R2Bucket, key: string, take: (object: R2ObjectBody) => Promise<T>): Promise<T> {
  const body = async () => {
    const object = await bucket.get(key)
    if (!object) throw new BackupError(`${key} is missing.`)
    return take(object)
  }
  return withDeadline(body(), BUDGET_MS.storage)
}
