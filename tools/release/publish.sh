#!/usr/bin/env bash
# Pushes the image and the chart of a release to a registry, and signs image, chart and checksums with cosign.
#   tools/release/publish.sh REGISTRY FOLDER
# FOLDER has the files of `make release`; the signature of the checksums is written to it. Signatures are keyless: cosign asks for
# an identity, which a workflow of the forge has. tools/release/rehearse.sh sets COSIGN_KEY, COSIGN_CERTIFICATE and COSIGN_CHAIN
# instead: files of a throwaway CA. Those signatures are not in the public transparency log.
set -euo pipefail
cd "$(dirname "$0")/../.."

registry=${1:-} folder=${2:-}
[ -n "$folder" ] || { echo "publish: write tools/release/publish.sh REGISTRY FOLDER" >&2; exit 2; }
version=$(tools/release/version.sh)
crane=$(tools/release/tools.sh crane)
helm=$(tools/release/tools.sh helm)
cosign=$(tools/release/tools.sh cosign)
sign=(--yes)
[ -z "${COSIGN_KEY:-}" ] || sign+=(--key "$COSIGN_KEY" --certificate "$COSIGN_CERTIFICATE" \
  --certificate-chain "$COSIGN_CHAIN" --use-signing-config=false --tlog-upload=false)
http=() plain=()
case "$registry" in 127.0.0.1:* | localhost:*) http=(--allow-http-registry) plain=(--plain-http) ;; esac

(cd "$folder" && sha256sum --check --quiet SHA256SUMS)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
tar -C "$scratch" -xf "$folder/headgate-$version-image.tar"
"$crane" push "$scratch" "$registry/headgate:$version" >&2
digest=$("$crane" digest "$registry/headgate:$version")
# The chart was made for this image.
tar -xzOf "$folder/headgate-$version.tgz" headgate/values.yaml | grep -qx "  digest: $digest" ||
  { echo "publish: the registry has the image as $digest, which is not the digest in the chart" >&2; exit 1; }
"$cosign" sign "${sign[@]}" "${http[@]}" "$registry/headgate@$digest"

said=$("$helm" push "${plain[@]}" "$folder/headgate-$version.tgz" "oci://$registry/charts" 2>&1) ||
  { echo "publish: $said" >&2; exit 1; }
chart=$(sed -n 's/^Digest: //p' <<<"$said")
"$cosign" sign "${sign[@]}" "${http[@]}" "$registry/charts/headgate@$chart"

"$cosign" sign-blob "${sign[@]}" --bundle "$folder/SHA256SUMS.sigstore.json" "$folder/SHA256SUMS" >/dev/null
echo "image $registry/headgate:$version@$digest"
echo "chart oci://$registry/charts/headgate --version $version ($chart)"
