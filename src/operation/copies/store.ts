import { BUDGET_MS, withDeadline } from '../../kernel/http/deadline.ts'
import {
  BackupError,
  type BackupName,
  formatManifest,
  type Line,
  type Manifest,
  manifestKey,
  manifestPrefix,
  type Part,
  packPart,
  parseManifest,
  parseManifestKey,
  partKey,
  partsPrefix,
  planRemoval,
  unpackPart,
} from './format.ts'

// The bucket of the backups.

export interface Store {
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

export async function writeManifest({ bucket }: Store, manifest: Manifest): Promise<void> {
  const key = manifestKey(manifest.company_id, manifest)
  await withDeadline(bucket.put(key, formatManifest(manifest)), BUDGET_MS.storage)
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

/** A part is written after the page with which its text has this many characters, or earlier at twice as many. */
const PART_CHARACTERS = 3_000_000

/** Gathers lines of several pages, and writes them as the next parts of a backup. */
export class PartWriter {
  private readonly store: Store
  private readonly at: string
  private number: number
  private lines: Line[] = []
  private characters = 0
  private written: Part[] = []

  /** @param backup its start, and the number of parts that are written */
  constructor(store: Store, { at, parts }: { at: string; parts: number }) {
    this.store = store
    this.at = at
    this.number = parts
  }

  async add(lines: readonly Line[]): Promise<void> {
    for (const line of lines) {
      this.lines.push(line)
      this.characters += Object.values(line.row).reduce((sum: number, value) => sum + String(value).length + 20, 0)
      if (this.characters >= 2 * PART_CHARACTERS) await this.flush()
    }
  }

  private async flush(): Promise<void> {
    if (this.lines.length === 0) return
    const { bucket, companyId } = this.store
    const { part, bytes } = packPart(partKey(companyId, this.at, ++this.number), this.lines)
    await withDeadline(bucket.put(part.key, bytes), BUDGET_MS.storage)
    this.written.push(part)
    this.lines = []
    this.characters = 0
  }

  get isFull(): boolean {
    return this.characters >= PART_CHARACTERS
  }

  /** Writes the waiting lines, and takes all parts written since the last call. */
  async take(): Promise<Part[]> {
    await this.flush()
    return this.written.splice(0)
  }
}

/** Limits the backups that one call removes, and the objects of one deletion. */
const REMOVED_AT_ONCE = 10
const KEYS_AT_ONCE = 1_000

/** Removes expired backups, and parts without a manifest. */
export async function removeOldBackups({ bucket, companyId }: Store, nowMs: number): Promise<void> {
  const backups = await listBackups({ bucket, companyId })
  const removed = planRemoval(backups, nowMs)
  // Remove the newest first, so that the rest of a chain still begins with a full backup.
  for (const backup of removed.toReversed()) {
    await withDeadline(bucket.delete(manifestKey(companyId, backup)), BUDGET_MS.storage)
  }
  const kept = new Set(backups.slice(removed.length).map(({ at }) => at))
  const prefix = partsPrefix(companyId)
  const folders = await withDeadline(bucket.list({ prefix, delimiter: '/' }), BUDGET_MS.storage)
  const orphans = folders.delimitedPrefixes.filter((folder) => !kept.has(folder.slice(prefix.length, -1)))
  for (const folder of orphans.slice(0, REMOVED_AT_ONCE)) await removeFolder(bucket, folder)
}

async function removeFolder(bucket: R2Bucket, prefix: string): Promise<void> {
  for (let hasMore = true; hasMore; ) {
    const page = await withDeadline(bucket.list({ prefix, limit: KEYS_AT_ONCE }), BUDGET_MS.storage)
    if (page.objects.length === 0) return
    await withDeadline(bucket.delete(page.objects.map(({ key }) => key)), BUDGET_MS.storage)
    hasMore = page.truncated
  }
}
