import type { AddressPolicy } from '../../src/kernel/http/outbound.ts'

/** As in development: the simulators are on loopback addresses. */
export const LOCAL: AddressPolicy = { resolver: undefined, allowsLoopback: true }
