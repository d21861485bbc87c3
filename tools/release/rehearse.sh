#!/usr/bin/env bash
# Publishes the files of a release to a registry on loopback, signed with a certificate of a throwaway CA that names the workflow
# as cosign's CA does. Then runs the commands of docs/install/verify.md on what was published, and checks that they refuse other
# signers and changed files. Nothing leaves this machine.
#   tools/release/rehearse.sh FOLDER
set -euo pipefail
cd "$(dirname "$0")/../.."

[ $# = 1 ] || { echo "rehearse: write tools/release/rehearse.sh FOLDER" >&2; exit 2; }
version=$(tools/release/version.sh)
crane=$(tools/release/tools.sh crane)
cosign=$(tools/release/tools.sh cosign)
scratch=$(mktemp -d)
registry_process=
stop() {
  [ -z "$registry_process" ] || kill "$registry_process" 2>/dev/null || true
  rm -rf "$scratch"
}
trap stop EXIT
files=$scratch/files trust=$scratch/trust
cp -r "$1" "$files"
mkdir "$trust" "$scratch/user"

# A CA, and a certificate for the tag's run of the workflow: its identity, and who vouches for it (the OIDC issuer).
repository=$(sed -n 's/^repository = "\(.*\)"/\1/p' Cargo.toml)
issuer=https://token.actions.githubusercontent.com
(
  cd "$trust"
  key() { openssl genpkey -quiet -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out "$1"; }
  key ca.key
  openssl req -x509 -new -key ca.key -days 1 -subj "/CN=throwaway" -out ca.pem \
    -addext basicConstraints=critical,CA:TRUE -addext keyUsage=critical,keyCertSign
  key signer.pem.key
  openssl req -new -key signer.pem.key -subj / -out signer.csr
  printf '%s\n' "subjectAltName=critical,URI:$repository/.github/workflows/release.yaml@refs/tags/v$version" \
    keyUsage=critical,digitalSignature extendedKeyUsage=codeSigning \
    "1.3.6.1.4.1.57264.1.1=DER:$(printf %s "$issuer" | od -An -v -tx1 | tr -d ' \n')" >extensions
  openssl x509 -req -in signer.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 1 -extfile extensions -out signer.pem
  COSIGN_PASSWORD='' "$cosign" import-key-pair --key signer.pem.key --output-key-prefix signer
  "$cosign" trusted-root create --fulcio="url=https://throwaway.invalid,certificate-chain=ca.pem" --out root.json
) 2>"$scratch/log" || { cat "$scratch/log" >&2; exit 1; }

. tools/release/registry.sh
start_registry "$crane" "$scratch/registry.log"
COSIGN_PASSWORD='' COSIGN_KEY=$trust/signer.key COSIGN_CERTIFICATE=$trust/signer.pem COSIGN_CHAIN=$trust/ca.pem \
  tools/release/publish.sh "$registry" "$files"

# The chart that users get is the one of the files.
"$(tools/release/tools.sh helm)" pull "oci://$registry/charts/headgate" --version "$version" --plain-http --destination "$scratch" \
  >"$scratch/log" 2>&1 || { cat "$scratch/log" >&2; exit 1; }
cmp "$scratch/headgate-$version.tgz" "$files/headgate-$version.tgz"

# The user's side: the commands of the page, with this registry, this CA, and no transparency log.
commands=$(awk '/^```/ { inside = $0 == "```sh"; next } inside && !/^gh /' docs/install/verify.md | sed "s|ghcr.io/headgate|$registry|g")
cat >"$scratch/user.sh" <<EOF
cosign() {
  local more=(--trusted-root "$trust/root.json" --allow-certificate-chain --insecure-ignore-tlog --insecure-ignore-sct)
  [ "\$1" = verify-blob ] || more+=(--allow-http-registry)
  "$cosign" "\$@" "\${more[@]}"
}
curl() {
  local url=\${*: -1}
  cp "$files/\${url##*/}" .
}
EOF
verify() { (cd "$scratch/user" && BASH_ENV=$scratch/user.sh bash -euo pipefail -c "$1"); }
refused() {
  if verify "$2" >"$scratch/log" 2>&1; then
    echo "rehearse: the commands of the page accept $1" >&2
    exit 1
  fi
  echo "refused: $1"
}
cp "$files"/headgate-* "$scratch/user"
verify "$commands"
refused "another signer" "${commands//release\\.yaml/other\\.yaml}"
echo changed >>"$files/SHA256SUMS"
refused "changed checksums" "$commands"
cp "$1/SHA256SUMS" "$files"
echo changed >>"$scratch/user/headgate-$version.tgz"
refused "a changed chart" "$commands"
