import type { Child } from './dom.ts'

export interface Company {
  id: number
  name: string
  role: 'developer' | 'owner' | 'operator'
}

/** What a view gets of the chosen company. */
export interface Scope {
  /** `/companies/1`, with which the paths of its endpoints begin. */
  path: string
  /** Whether the person may change integrations and members. */
  isOwner: boolean
  /** Reads the view again and tells what was done. */
  refresh(message: string): void
}

/** A part of the settings, shown at `#id`. */
export interface View {
  id: string
  title: string
  lead: string
  isForOwners?: boolean
  /** @throws what `call` throws */
  load(scope: Scope): Promise<readonly Child[]>
}
