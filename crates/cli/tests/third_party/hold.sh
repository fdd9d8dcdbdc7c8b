#!/bin/sh
# Holds a lock with curl until standard input ends: hold.sh HOST:PORT NAME. Prints "held" when it
# holds the lock. It is killed with its process group, or the lease is renewed for ever.
set -eu
endpoint=$1
name=$(printf %s "$2" | base64 -w0)
call() {
    curl --silent --show-error --fail-with-body --json "$2" "http://$endpoint/v3/$1"
}
field() {
    sed -n "s/.*\"$1\":\"\([^\"]*\)\".*/\1/p"
}
lease=$(call lease/grant '{"TTL": 3}' | field ID)
while sleep 1; do
    call lease/keepalive "{\"ID\": \"$lease\"}" >/dev/null
done &
renewer=$!
key=$(call lock/lock "{\"name\": \"$name\", \"lease\": \"$lease\"}" | field key)
echo held
cat >/dev/null
call lock/unlock "{\"key\": \"$key\"}" >/dev/null
kill "$renewer"
