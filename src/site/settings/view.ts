import type { ResponseOf } from './api.ts'
import type { Child } from './dom.ts'

export type Company = ResponseOf<'GET /me'>['companies'][number]

/** The chosen company, as a view gets it. */
export interface Scope {
  /** The path parameters of the company's endpoints. */
  params: { company_id: number }
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
