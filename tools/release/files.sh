#!/usr/bin/env bash
# Writes the files of a release into a folder: for each processor an archive and an SBOM, and for all of them the licence
# texts, the checksums and the manifest for krew. The programs are in target/release-programs/amd64 and arm64.
#   tools/release/files.sh FOLDER https://example.com/headgate/v0.1.0
set -euo pipefail
cd "$(dirname "$0")/../.."

out=${1:-} downloads=${2:-}
case "$out,$downloads" in
  ?*,http://?* | ?*,https://?*) ;;
  *) echo "files: write tools/release/files.sh FOLDER URL, with the address of the folder where the files will be" >&2; exit 2 ;;
esac
version=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' Cargo.toml)
release() { ${CARGO:-cargo} run --locked -q -p headgate-release -- "$@"; }

rm -rf "$out"
mkdir -p "$out"
packed=$(mktemp -d)
trap 'rm -rf "$packed"' EXIT
release notices --arch amd64 --arch arm64 --out "$out/THIRD-PARTY-NOTICES.txt"
install -m 644 LICENSE "$out/THIRD-PARTY-NOTICES.txt" "$packed"
values=(-e "s|\$DOWNLOADS|${downloads%/}|g" -e "s|\$VERSION|$version|g")
for arch in amd64 arm64; do
  name=headgate-$version-linux-$arch
  install -m 755 "target/release-programs/$arch/headgate" "$packed"
  # The same files make the same archive: no owner, no time, a fixed order.
  tar -C "$packed" --format=ustar --owner=0 --group=0 --numeric-owner --mtime=@0 -cf - \
    headgate LICENSE THIRD-PARTY-NOTICES.txt | gzip -9n >"$out/$name.tar.gz"
  release sbom --arch "$arch" --out "$out/$name.cdx.json"
  sum=$(sha256sum "$out/$name.tar.gz")
  values+=(-e "s|\$SHA256_${arch^^}|${sum%% *}|g")
done
(cd "$out" && sha256sum -- *.tar.gz *.cdx.json >SHA256SUMS)
# As the file of a plugin has to be called.
sed -e '/^#/d' "${values[@]}" deploy/krew/headgate.yaml >"$out/headgate.yaml"
if grep -n '\$' "$out/headgate.yaml"; then
  echo "files: tools/release/files.sh has no value for this in deploy/krew/headgate.yaml" >&2
  exit 1
fi
ls "$out"
