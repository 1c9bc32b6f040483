import type { Documentation } from '../../kernel/api/contract.ts'

/** A thread and an order of the sample company. */
const thread = '19cce455887af494'
const exampleKey = `orders/1/44/email/${thread}/logo front.png`
const exampleFile = {
  path: exampleKey,
  objectName: 'logo front.png',
  length: 48_211,
  lastChanged: '2026-03-02T09:30:00.000Z',
  source: 'email',
}

export const documentation = {
  presignUpload: {
    summary: 'Get a URL to upload a file to',
    description:
      'The key is `orders/<company>/<order>/email/<thread>/<name>`, so uploading the same name again overwrites the file. Type and length are signed: the storage refuses an upload of another type or length with 403. 409 with the reason `storage_not_configured` where no storage is configured.',
    example: {
      params: { orderId: '44' },
      body: { fileName: 'logo front.png', contentType: 'image/png', size: 48_211, legacyThreadId: thread },
      response: {
        uploadUrl:
          'https://storage.example/shop-files/orders/1/44/email/19cce455887af494/logo%20front.png?X-Amz-Expires=600&X-Amz-SignedHeaders=content-length%3Bcontent-type%3Bhost&X-Amz-Signature=…',
        key: exampleKey,
        contentType: 'image/png',
        expiresIn: 600,
      },
    },
  },
  listFiles: {
    summary: 'List the files of an order',
    description:
      'All files of the order, or of one of its mail threads, by key, up to 10,000; `truncated` is true where there are more, or where the storage needs more than 25 seconds or 40 pages. `configured` is false, and `files` empty, where no storage is configured. 502 when the company’s own storage fails or rejects its keys; `details.storage_code` is then its own error code.',
    example: {
      params: { orderId: '44' },
      query: { legacyThreadId: thread },
      response: { files: [exampleFile], configured: true, truncated: false },
    },
  },
  presignDownload: {
    summary: 'Get a URL to download a file from',
    description:
      'The URL is valid for 600 seconds and saves the file under its own name: its response has `Content-Disposition: attachment`. 404 for a key that is not one of this order’s files. 409 with the reason `storage_not_configured` where no storage is configured, 502 when the company’s own storage fails.',
    example: {
      params: { orderId: '44' },
      query: { path: exampleKey },
      response: {
        downloadUrl:
          'https://storage.example/shop-files/orders/1/44/email/19cce455887af494/logo%20front.png?X-Amz-Expires=600&response-content-disposition=attachment%3B%20filename%3D%22logo%20front.png%22&X-Amz-SignedHeaders=host&X-Amz-Signature=…',
        expiresIn: 600,
        contentType: 'image/png',
        ...exampleFile,
      },
    },
  },
  deleteFile: {
    summary: 'Delete a file of an order',
    description:
      'Deletes the file for good and returns what it was; messages that name its key keep it. 404 for a key that is not one of this order’s files, a second time too. 409 and 502 as for a download.',
    example: { params: { orderId: '44' }, query: { path: exampleKey }, response: { file: exampleFile } },
  },
} satisfies Record<string, Documentation>
