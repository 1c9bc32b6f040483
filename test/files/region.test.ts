import { describe, expect, it } from 'vitest'
import { regionOfHost } from '../../src/files/s3.ts'

describe('the region of an endpoint', () => {
  it.each([
    ['s3.eu-west-1.amazonaws.com', 'eu-west-1'],
    ['s3-eu-west-1.amazonaws.com', 'eu-west-1'],
    ['s3.dualstack.ap-southeast-2.amazonaws.com', 'ap-southeast-2'],
    ['s3-fips.us-gov-west-1.amazonaws.com', 'us-gov-west-1'],
    ['s3-fips.dualstack.us-east-2.amazonaws.com', 'us-east-2'],
    ['shop.files.s3.eu-central-1.amazonaws.com', 'eu-central-1'],
    ['shop.s3-us-west-2.amazonaws.com', 'us-west-2'],
    ['shop.s3.dualstack.us-west-2.amazonaws.com', 'us-west-2'],
    ['s3.cn-north-1.amazonaws.com.cn', 'cn-north-1'],
    ['s3.amazonaws.com', 'us-east-1'],
    ['shop.s3.amazonaws.com', 'us-east-1'],
    ['S3.EU-West-1.AmazonAWS.com', 'eu-west-1'],
    ['abc.r2.cloudflarestorage.com', 'auto'],
    ['abc.eu.r2.cloudflarestorage.com', 'auto'],
    ['s3-accelerate.amazonaws.com', null],
    ['ec2.eu-west-1.amazonaws.com', null],
    ['s3.eu-west-1.amazonaws.com.evil.example', null],
    ['evilr2.cloudflarestorage.com', null],
    ['storage.example', null],
    ['127.0.0.1', null],
  ])('of %s is %s', (host, region) => {
    expect(regionOfHost(host)).toBe(region)
  })
})
