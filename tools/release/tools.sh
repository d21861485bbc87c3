#!/usr/bin/env bash
# Prints the path of a tool that a release is made with, and builds it first if it is not in the cache. Go and cargo check what
# they download: the sum database of Go modules, and the checksums of crates.io.
#   tools/release/tools.sh crane|cosign|actionlint|helm|helm4|cargo-about|cargo-cyclonedx
set -euo pipefail
cd "$(dirname "$0")/../.."

tool=${1:-} features=()
case "$tool" in
  crane) version=v0.22.1 module=github.com/google/go-containerregistry/cmd/crane ;;
  cosign) version=v3.1.3 module=github.com/sigstore/cosign/v3/cmd/cosign ;;
  actionlint) version=v1.7.12 module=github.com/rhysd/actionlint/cmd/actionlint ;;
  helm) version=$(sed -n 's/^\thelm.sh\/helm\/v3 \(v[^ ]*\).*/\1/p' localstack/helm/go.mod) module=helm.sh/helm/v3/cmd/helm ;;
  helm4) version=v4.3.2 module=helm.sh/helm/v4/cmd/helm ;;
  cargo-about) version=0.9.3 features=(--features cli) ;;
  cargo-cyclonedx) version=0.5.9 ;;
  *) echo "tools: '$tool' is no tool of a release; see the list in tools/release/tools.sh" >&2; exit 2 ;;
esac

folder="${XDG_CACHE_HOME:-$HOME/.cache}/headgate/tools/$tool-$version"
program=${module:+$(basename "$module")}
program=$folder/bin/${program:-$tool}
if [ ! -x "$program" ]; then
  echo "No $tool $version in $folder: building it." >&2
  mkdir -p "$(dirname "$folder")"
  unfinished=$(mktemp -d "$folder.XXXXXX")
  trap 'rm -rf "$unfinished"' EXIT
  if [ -n "${module:-}" ]; then
    (cd "$unfinished" && GOFLAGS=-mod=mod GOWORK=off GOBIN="$unfinished/bin" CGO_ENABLED=0 go install -trimpath "$module@$version") >&2
  else
    # Without the flags and the target of what calls this.
    env -u RUSTFLAGS -u CARGO_BUILD_TARGET CARGO_TARGET_DIR="$unfinished/target" \
      cargo install --quiet --locked --version "$version" --root "$unfinished" "${features[@]}" "$tool" >&2
    rm -rf "$unfinished/target"
  fi
  chmod 755 "$unfinished"
  rm -rf "$folder"
  mv "$unfinished" "$folder"
  trap - EXIT
fi
echo "$program"
