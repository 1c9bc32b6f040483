// For the neighbour bench only: a Worker whose requests with `X-Slow-Rows` run one more statement, which goes through so
// many rows. It stands for a request that nobody has found yet.
import worker from './index.js'

export * from './index.js'

const SLOW =
  'WITH RECURSIVE rows(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM rows WHERE n < ?) SELECT count(*) FROM rows'

function slowDown(DB, rows) {
  const withSession = (mark) => {
    const session = DB.withSession(mark)
    return {
      prepare: (text) => session.prepare(text),
      getBookmark: () => session.getBookmark(),
      batch: async (statements) => {
        const [first, ...others] = await session.batch([session.prepare(SLOW).bind(rows), ...statements])
        const [head, ...rest] = others
        return [{ ...head, meta: { ...head.meta, duration: head.meta.duration + first.meta.duration } }, ...rest]
      },
    }
  }
  return { prepare: (text) => DB.prepare(text), withSession }
}

export default {
  ...worker,
  fetch(request, env, context) {
    const rows = Number(request.headers.get('x-slow-rows') ?? 0)
    return worker.fetch(request, rows > 0 ? { ...env, DB: slowDown(env.DB, rows) } : env, context)
  },
}
