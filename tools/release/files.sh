#!/usr/bin/env bash
# Writes all files of a release into a folder. The programs are in target/release-programs: amd64 and arm64 are required;
# darwin-amd64 and darwin-arm64, which only a Mac can link, are added if they are there.
#   tools/release/files.sh FOLDER REGISTRY DOWNLOADS
# REGISTRY: where image and chart will be, such as ghcr.io/headgate. DOWNLOADS: the URL of the folder with the files.
set -euo pipefail
cd "$(dirname "$0")/../.."

out=${1:-} registry=${2:-} downloads=${3:-}
case "$out,$registry,$downloads" in
  ?*,?*,http://?* | ?*,?*,https://?*) ;;
  *) echo "files: write tools/release/files.sh FOLDER REGISTRY URL" >&2; exit 2 ;;
esac
version=$(tools/release/version.sh)
rm -rf "$out"
mkdir -p "$out"
packed=$(mktemp -d)
trap 'rm -rf "$packed"' EXIT

tools/release/notices.sh "$out/THIRD-PARTY-NOTICES.txt"
install -m 644 LICENSE NOTICE "$out/THIRD-PARTY-NOTICES.txt" "$packed"

# The host's program prints the completions, which are the same for all.
case "$(uname -m)" in aarch64) own=arm64 ;; *) own=amd64 ;; esac
mkdir "$packed/completions"
for shell in bash zsh fish; do
  "target/release-programs/$own/headgate" completion "$shell" >"$packed/completions/headgate.$shell"
done
tools/release/archive.sh "$out/headgate-$version-completions.tar.gz" "$packed/completions" .

# A line of the krew manifest for each archive.
platforms=
for platform in linux-amd64 linux-arm64 darwin-amd64 darwin-arm64; do
  folder=target/release-programs/${platform#linux-}
  [ -x "$folder/headgate" ] || { echo "files: no programs for $platform; the release has none" >&2; continue; }
  name=headgate-$version-$platform
  install -m 755 "$folder/headgate" "$packed"
  tools/release/archive.sh "$out/$name.tar.gz" "$packed" headgate LICENSE NOTICE THIRD-PARTY-NOTICES.txt completions
  sum=$(sha256sum "$out/$name.tar.gz")
  platforms+="    - selector:
        matchLabels:
          os: ${platform%-*}
          arch: ${platform#*-}
      uri: ${downloads%/}/$name.tar.gz
      sha256: ${sum%% *}
      bin: headgate
"
done
for arch in amd64 arm64; do
  for program in headgate headgate-hold; do
    tools/release/sbom.sh "$program" "$arch" "$out/$program-$version-linux-$arch.cdx.json"
  done
done

digest=$(tools/release/image.sh target/release-image "$out/THIRD-PARTY-NOTICES.txt")
tools/release/archive.sh "$out/headgate-$version-image.tar" target/release-image .
tools/release/chart.sh "$out" "$registry/headgate" "$digest"

tools/release/builder.sh >"$out/BUILDER.txt"

# As the file of a plugin has to be called.
sed -e '/^#/d' -e "s|\$VERSION|$version|" deploy/krew/headgate.yaml >"$out/headgate.yaml"
printf '%s' "$platforms" >>"$out/headgate.yaml"
(cd "$out" && sha256sum -- * | LC_ALL=C sort -k2 >"$packed/sums" && mv "$packed/sums" SHA256SUMS && chmod 644 SHA256SUMS)
# The digest, for what publishes the image.
echo "$digest" >target/release-image.digest
ls -l "$out"
