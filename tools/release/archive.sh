#!/usr/bin/env bash
# Writes files of a folder into an archive. The same files make the same archive: no owner, no time, a fixed order.
#   tools/release/archive.sh ARCHIVE.tar.gz|.tgz|.tar FOLDER FILE...
set -euo pipefail

out=${1:-} folder=${2:-}
[ $# -ge 3 ] || { echo "archive: write tools/release/archive.sh ARCHIVE.tar.gz|.tgz|.tar FOLDER FILE..." >&2; exit 2; }
shift 2
tar -C "$folder" --format=ustar --sort=name --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX --mtime=@0 -cf - -- "$@" |
  case "$out" in *gz) gzip -9n ;; *) cat ;; esac >"$out"
