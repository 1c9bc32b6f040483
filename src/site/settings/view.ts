import type { Child } from './dom.ts'

export interface Company {
  id: number
  name: string
  role: 'developer' | 'owner' | 'operator'
}

/** The chosen company, as a view gets it. */
export interface Scope {
  /** The prefix of the company's endpoints, such as `/companies/1`. */
  path: string
  /** Whether the person may change integrations and members. */
  isOwner: boolean
  /** Reads the view again and announces the finished action. */
  refresh(message: string): void
}

/** A part of the settings, shown at `#id`. */
export interface View {
  id: string
  title: string
  lead: string
  isForOwners?: boolean
  /** @throws the errors of `call` */
  load(scope: Scope): Promise<readonly Child[]>
}
