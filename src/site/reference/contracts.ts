import { globSync } from 'node:fs'
import { join } from 'node:path'
import type { Published } from '../../kernel/api/contract.ts'

const SRC = join(import.meta.dirname, '../..')

/** Loads what the slices below a folder publish: a contract is described without being listed anywhere. */
export async function loadPublished(folder: 'resources' | 'operation/admin'): Promise<Published[]> {
  const files = globSync(`${folder}/*/{contract,documentation}.ts`, { cwd: SRC }).sort()
  const modules: { published?: Published | Published[] }[] = await Promise.all(
    files.map((file) => import(join(SRC, file))),
  )
  return modules.flatMap(({ published }) => published ?? [])
}
