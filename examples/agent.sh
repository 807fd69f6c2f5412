#!/bin/sh
# The shortest agent that `runlog run` takes: says one thing, and waits until it is durable, or refused.
# docs/agent-protocol.md has all that an agent is told, and may say.
while read -r line; do
  case "$line" in
    *'"type":"ready"'*) echo '{"type":"message","id":1,"message":{"role":"assistant","content":"Hello."}}' ;;
    *'"type":"ack"'*) exit 0 ;;
    *'"type":"error"'*) echo "$line" >&2; exit 1 ;;
  esac
done
