#!/usr/bin/env bash
# For scripts to source: a registry on loopback, for one script alone.

# Starts it, and sets `registry` to its address and `registry_process` to its process.
#   start_registry CRANE LOG
start_registry() {
  local crane=$1 log=$2 port=
  : >"$log"
  "$crane" registry serve --address 127.0.0.1:0 >"$log" 2>&1 &
  registry_process=$!
  for _ in $(seq 100); do
    port=$(sed -n 's/.*serving on port \([0-9]*\).*/\1/p' "$log")
    [ -z "$port" ] || break
    kill -0 "$registry_process" || { cat "$log" >&2; return 1; }
    sleep 0.1
  done
  [ -n "$port" ] || { echo "registry: crane does not say its port: $(cat "$log")" >&2; return 1; }
  registry=127.0.0.1:$port
}
