// For the bench of writes only: a Worker that logs how long each transaction held the database.
import worker from './index.js'

export * from './index.js'

function measured(DB) {
  const withSession = (mark) => {
    const session = DB.withSession(mark)
    const batch = async (statements) => {
      const results = await session.batch(statements)
      const ms = results.reduce((sum, { meta }) => sum + meta.duration, 0)
      console.log(JSON.stringify({ event: 'held', ms }))
      return results
    }
    return { prepare: (text) => session.prepare(text), getBookmark: () => session.getBookmark(), batch }
  }
  return { prepare: (text) => DB.prepare(text), withSession }
}

export default {
  ...worker,
  fetch(request, env, context) {
    return worker.fetch(request, { ...env, DB: measured(env.DB) }, context)
  },
}
