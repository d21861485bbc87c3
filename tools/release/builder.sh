#!/usr/bin/env bash
# Prints what the programs of a release depend on, apart from their sources: whoever has the same builds the same bytes.
set -euo pipefail
cd "$(dirname "$0")/../.."

line() { printf '%-6s %s\n' "$1" "$2"; }
c() {
  local library
  library=$("$1" -print-file-name=libc.so.6)
  echo "$("$1" --version | sed -n 1p), $(grep -a -o -m1 'GNU C Library ([^)]*)' "$library")"
}
line system "$(sed -n 's/^PRETTY_NAME="\(.*\)"$/\1/p' /etc/os-release)"
line rust "$(rustc --version)"
line amd64 "$(c cc)"
line arm64 "$(c "$(tools/release/cross.sh aarch64-unknown-linux-gnu)/cc")"
