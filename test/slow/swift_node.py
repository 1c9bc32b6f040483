"""One node of OpenStack Swift with its s3api, in one process on 127.0.0.1, with ports that the system gives.

Usage: swift_node.py FOLDER ACCESS_KEY SECRET_KEY REGION. Prints the port of the proxy, and ends when its input does.
"""

import os
import sys

from swift.common import utils

utils.eventlet_monkey_patch()
# Else these would be read from /etc/swift/swift.conf, which belongs to the machine.
utils.HASH_PATH_SUFFIX = b'test'

import eventlet
from eventlet import wsgi
from swift.common.ring import RingBuilder
from swift.common.wsgi import SwiftHttpProtocol, loadapp

folder, access_key, secret_key, region = sys.argv[1:]
account, _, user = access_key.partition(':')

STORAGE = """
[DEFAULT]
devices = {folder}/devices
mount_check = false
swift_dir = {folder}
bind_ip = 127.0.0.1
log_level = ERROR
[pipeline:main]
pipeline = {name}-server
[app:{name}-server]
use = egg:swift#{name}
"""

PROXY = """
[DEFAULT]
swift_dir = {folder}
bind_ip = 127.0.0.1
log_level = ERROR
[pipeline:main]
pipeline = catch_errors gatekeeper cache s3api tempauth copy slo dlo proxy-server
[filter:catch_errors]
use = egg:swift#catch_errors
[filter:gatekeeper]
use = egg:swift#gatekeeper
[filter:cache]
use = egg:swift#memcache
memcache_servers = 127.0.0.1:9
[filter:s3api]
use = egg:swift#s3api
location = {region}
storage_domain = localhost
allow_multipart_uploads = false
[filter:tempauth]
use = egg:swift#tempauth
user_{account}_{user} = {secret_key} .admin
[filter:copy]
use = egg:swift#copy
[filter:slo]
use = egg:swift#slo
[filter:dlo]
use = egg:swift#dlo
[app:proxy-server]
use = egg:swift#proxy
account_autocreate = true
"""


def write(name, template):
    path = os.path.join(folder, name + '.conf')
    with open(path, 'w') as conf:
        conf.write(template.format(**dict(globals(), name=name)))
    return path


def serve(name, template, socket):
    app = loadapp(write(name, template))
    eventlet.spawn(wsgi.server, socket, app, log_output=False, protocol=SwiftHttpProtocol, max_size=1024)


def wait_for_end():
    eventlet.tpool.execute(sys.stdin.read)


os.makedirs(os.path.join(folder, 'devices', 'd1'))
kinds = ('account', 'container', 'object')
sockets = {name: eventlet.listen(('127.0.0.1', 0)) for name in kinds + ('proxy',)}
for name in kinds:
    ring = RingBuilder(4, 1, 1)
    port = sockets[name].getsockname()[1]
    ring.add_dev({'region': 1, 'zone': 1, 'ip': '127.0.0.1', 'port': port, 'device': 'd1', 'weight': 1})
    ring.rebalance()
    ring.get_ring().save(os.path.join(folder, name + '.ring.gz'))
for name in kinds:
    serve(name, STORAGE, sockets[name])
serve('proxy', PROXY, sockets['proxy'])
print(sockets['proxy'].getsockname()[1], flush=True)
wait_for_end()
