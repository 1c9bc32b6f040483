import { formatBudgets } from './budgets.ts'

/** `npm run --silent budgets`: the README's table of what requests cost. */
console.log(formatBudgets())
