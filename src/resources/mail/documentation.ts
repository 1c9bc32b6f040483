import type { Documentation } from '../../kernel/api/contract.ts'

/** A thread of the sample company's client and order. */
const legacyThreadId = '19cce455887af494'
const examplePath = { legacyThreadId }

const sender = { name: 'Søren Mendes', email: 'soren@old-mill-brewing-company.example' }
const mailbox = { account_email: 'orders@ridgeline.example' }
const mail_thread_id = 'thread-f:1859111802210284692'
const preview = { subject: 'Staff shirts: the new logo', snippet: 'Here is the logo for the shirts …' }
const mail_history_id = '987654'
const times = { first_message_at: '2026-06-11T16:20:00.000Z', last_message_at: '2026-06-11T16:20:00.000Z' }

const content = {
  participants: [sender],
  labels: ['INBOX'],
  messages: [
    {
      id: legacyThreadId,
      sent_at: '2026-06-11T16:20:00Z',
      from: sender,
      body_plain: 'Here is the logo for the shirts …',
      is_from_us: false,
      attachments: [
        {
          filename: 'logo front.png',
          mime_type: 'image/png',
          size_bytes: 48_211,
          storage_key: `orders/1/44/email/${legacyThreadId}/logo front.png`,
        },
      ],
    },
  ],
}

const linkedClient = {
  id: 17,
  company_name: 'Old Mill Brewing Company',
  first_name: 'Søren',
  last_name: 'Mendes',
  email: sender.email,
}
const shop = { name: 'Ridgeline Custom Apparel', email: 'orders@ridgeline.example' }

const links = {
  sender_email: sender.email,
  client_id: '17',
  client_data: linkedClient,
  clients_data: [linkedClient],
  orders_data: [{ id: 44, title: 'Staff shirts', order_status_id: 10, deadline: '2026-07-01' }],
  selected_order_id: '44',
  participant_emails: [sender.email, shop.email],
  participants_data: [sender, shop],
}

export const published = {
  tags: {
    Mail: 'Mail threads: what the CRM knows about a thread, and the full content of threads that a tool synchronizes.',
  },
  document: (): Record<string, Documentation> => ({
    listThreadContexts: {
      summary: 'List the mail threads of an order or a client',
      description:
        'The contexts that are linked to this order by `orders_data`, or to this client by `client_id` or `clients_data`, in the order of `thread_id`; one that is not tied to the company is not listed, as it is not read. Of several with one legacy id, of which a read finds the newest, each is listed. Send exactly one of `order_id` and `client_id`; one that is not the company’s has no contexts. A page has at most about 4 MB of stored JSON, so it may have fewer elements than `per_page` while `has_more` is true.',
      example: { query: { order_id: 44, per_page: 25 } },
    },
    readThreadContext: {
      summary: 'Read what links a mail thread to clients and orders',
      description:
        'A context belongs to the company whose data holds it: no other company ever sees it. Responds with 404 unless it is tied to the company: through its client, through an order in `orders_data` (also a deleted one), or through the company id in its JSON. Of several contexts with this id, the newest that is tied. Elements of `clients_data` and `orders_data` that name another company, or whose id is no client or order of the company, are left out; `client_id`, `client_data` and `selected_order_id` are then null. Elements without an id stay where they name no other company. The shape of that JSON depends on its writer.',
      example: { params: examplePath },
    },
    putThreadContext: {
      summary: 'Link a mail thread to clients and orders',
      description:
        'Creates the context of this legacy id, or replaces it: a field that is left out becomes null, but for `thread_id`. One that a context with another legacy id has is a 400; a context with it and no legacy id is taken over. Every id must be a client or an order of the company that is not deleted, or one that the stored context has: 400 names each other one by its path, such as `orders_data.1.id`. The context must have a `client_id` or an element of `orders_data`; to remove it, use DELETE. A `company_id` or `companyId` of an element or of `client_data` must be the token’s company. The arrays have at most 100 elements; the shape of their JSON is otherwise the writer’s own, nested at most 32 levels deep. Its numbers are doubles: send longer ones as strings. As it is stored, with numbers such as `1e20` written out, the JSON has at most 500,000 bytes: 413 over it.',
      example: { params: examplePath, body: { thread_id: mail_thread_id, ...links } },
    },
    deleteThreadContext: {
      summary: 'Remove what links a mail thread to clients and orders',
      description:
        'Deletes the context for good and returns it as it was. 404 where there is none, a second time too. The email thread, its clients and its orders stay.',
      example: { params: examplePath },
    },
    listEmailThreads: {
      summary: 'List the email threads of a mailbox',
      description:
        'Newest created first, without participants, labels and messages; read a thread for those. Pages follow by `cursor`: nothing that exists during the whole walk is skipped or shown twice. A page looks at 1,000 threads at most, so a filter may leave it with fewer elements than `per_page`, or none, while `has_more` is true.',
      example: { query: { ...mailbox, per_page: 25 } },
    },
    readEmailThread: {
      summary: 'Read a whole email thread',
      description:
        'The thread of this mailbox with every message. 404 for one that was never stored or is soft-deleted. The response has an `ETag`, a weak one where it may be compressed; send it back in `If-None-Match`: 304 without a body until the thread is stored again, unchanged or not.',
      example: { params: examplePath, query: mailbox },
    },
    putEmailThread: {
      summary: 'Store a whole email thread',
      description:
        'Creates the thread of this mailbox, or replaces it: nothing is merged, so send every message each time. Mailboxes are separate: the same id with another `account_email` is another thread. What is stored comes back as the same JSON values, whatever its size; a message may be any object. Sending what is stored already is cheap. A soft-deleted thread is restored.',
      example: {
        params: examplePath,
        body: { ...mailbox, ...preview, mail_thread_id, mail_history_id, ...times, ...content },
      },
    },
    deleteEmailThread: {
      summary: 'Delete an email thread',
      description:
        'Soft-deletes the thread and returns it without its content: reading it gives 404 until the next PUT, which restores it. Its stored messages still count against the company’s quota: to free them, PUT the thread with `"messages": []` before. 404 where there is none, a second time too.',
      example: { params: examplePath, query: mailbox },
    },
  }),
}
