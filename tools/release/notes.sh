#!/usr/bin/env bash
# Prints the section of a version in CHANGELOG.md.
#   tools/release/notes.sh 0.1.0
set -euo pipefail
cd "$(dirname "$0")/../.."

version=${1:?"notes: write tools/release/notes.sh VERSION"}
text=$(awk -v head="## [$version]" 'index($0, "## [") == 1 { on = index($0, head) == 1; next } /^\[.*\]: http/ { on = 0 } on' CHANGELOG.md)
[ -n "${text//[[:space:]]/}" ] || { echo "notes: CHANGELOG.md has no section '## [$version]'" >&2; exit 1; }
printf '%s\n' "$text"
