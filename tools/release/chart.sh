#!/usr/bin/env bash
# Packages the chart of a release, with the image's repository and digest in it, and writes install.yaml with the same image.
#   tools/release/chart.sh FOLDER REPOSITORY DIGEST
set -euo pipefail
cd "$(dirname "$0")/../.."

out=${1:-} repository=${2:-} digest=${3:-}
[[ $digest == sha256:* ]] || { echo "chart: write tools/release/chart.sh FOLDER REPOSITORY sha256:DIGEST" >&2; exit 2; }
version=$(tools/release/version.sh)
helm=$(tools/release/tools.sh helm)
default=ghcr.io/headgate/headgate
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
# helm logs every symbolic link that it follows.
cp -rL deploy/helm/headgate "$scratch/headgate"
sed -i -e "s|^  repository: $default\$|  repository: $repository|" -e "s|^  digest: \"\"\$|  digest: $digest|" "$scratch/headgate/values.yaml"
sed -i -e "s|image: $default:$version\$|image: $repository:$version@$digest|" \
  -e '/make release.* adds the digest/d' "$scratch/headgate/Chart.yaml"
for file in values.yaml Chart.yaml; do
  grep -q "$digest" "$scratch/headgate/$file" || { echo "chart: there was no place for the digest in $file" >&2; exit 1; }
done
"$helm" lint --strict "$scratch/headgate" >&2
"$helm" package "$scratch/headgate" --destination "$scratch" >/dev/null
# helm writes the time of packaging: the archive is made again without it.
mkdir "$scratch/packed"
tar -C "$scratch/packed" --touch --warning=no-timestamp -xzf "$scratch/headgate-$version.tgz"
tools/release/archive.sh "$out/headgate-$version.tgz" "$scratch/packed" headgate
"$helm" show chart "$out/headgate-$version.tgz" >/dev/null
sed "s|$default:$version|$repository:$version@$digest|" deploy/install.yaml >"$out/install.yaml"
if grep -n "image: " "$out/install.yaml" | grep -v "$digest" >&2; then
  echo "chart: these lines of install.yaml have no digest" >&2
  exit 1
fi
