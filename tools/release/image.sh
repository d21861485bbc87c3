#!/usr/bin/env bash
# Makes the image for both processors from the programs in target/release-programs, with crane and without a daemon: an OCI
# layout with an index, in a folder.
#   tools/release/image.sh FOLDER NOTICES
# The image contains the two programs, the certificates of public CAs, and licences. Prints the digest of the index.
set -euo pipefail
cd "$(dirname "$0")/../.."

out=${1:-} notices=${2:-}
[ -n "$notices" ] || { echo "image: write tools/release/image.sh FOLDER NOTICES" >&2; exit 2; }
version=$(tools/release/version.sh)
crane=$(tools/release/tools.sh crane)
scratch=$(mktemp -d)
registry_process=
stop() {
  [ -z "$registry_process" ] || kill "$registry_process" 2>/dev/null || true
  rm -rf "$scratch"
}
trap stop EXIT

certificates=$(tools/release/certificates.sh)
# crane makes images in a registry.
. tools/release/registry.sh
start_registry "$crane" "$scratch/log"
name=$registry/headgate
images=()
for arch in amd64 arm64; do
  root=target/release-root/$arch
  rm -rf "$root"
  mkdir -p "$root/etc/ssl/certs" "$root/licenses"
  install -m 755 "target/release-programs/$arch/headgate" "target/release-programs/$arch/headgate-hold" "$root"
  install -m 644 "$certificates" "$root/etc/ssl/certs/ca-certificates.crt"
  install -m 644 LICENSE NOTICE "$root/licenses"
  install -m 644 "$notices" "$root/licenses/THIRD-PARTY-NOTICES.txt"
  tools/release/archive.sh "$scratch/$arch.tar.gz" "$root" etc headgate headgate-hold licenses
  "$crane" append --oci-empty-base --new_layer "$scratch/$arch.tar.gz" --new_tag "$name:$arch" >/dev/null 2>&1
  "$crane" mutate "$name:$arch" --tag "$name:$arch" --set-platform "linux/$arch" --user 65532:65532 --entrypoint /headgate \
    --label org.opencontainers.image.title=headgate --label "org.opencontainers.image.version=$version" \
    --label org.opencontainers.image.licenses=Apache-2.0 \
    --label org.opencontainers.image.source=https://github.com/headgate/headgate >/dev/null 2>&1
  images+=(-m "$name:$arch")
done
"$crane" index append "${images[@]}" --tag "$name:$version" >/dev/null 2>&1
rm -rf "$out"
"$crane" pull --format oci "$name:$version" "$out" >/dev/null 2>&1
"$crane" digest "$name:$version"
