/** What the simulated storage lets in; apart from it, because tests in workerd use them too. */
export const S3_KEYS = { access_key_id: 'simulated', secret_access_key: 'simulated/secret+key' }
export const S3_REGION = 'test-1'
