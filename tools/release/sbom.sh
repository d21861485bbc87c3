#!/usr/bin/env bash
# Writes the software bill of materials of a program for a processor: CycloneDX 1.5.
#   tools/release/sbom.sh headgate|headgate-hold amd64|arm64 FILE
# cargo-cyclonedx also lists crates that features or platforms could turn on. What `cargo tree` does not list is not in the
# program, and is removed here.
set -euo pipefail
cd "$(dirname "$0")/../.."

program=${1:-} arch=${2:-} out=${3:-}
case "$program" in headgate) folder=src/cli ;; headgate-hold) folder=src/hold ;; *) folder= ;; esac
case "$arch" in amd64) target=x86_64-unknown-linux-gnu ;; arm64) target=aarch64-unknown-linux-gnu ;; *) target= ;; esac
if [ -z "$folder" ] || [ -z "$target" ] || [ -z "$out" ]; then
  echo "sbom: write tools/release/sbom.sh headgate|headgate-hold amd64|arm64 FILE" >&2
  exit 2
fi
cyclonedx=$(tools/release/tools.sh cargo-cyclonedx)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
# It writes a file beside each Cargo.toml of the workspace: into a copy.
git ls-files -z -- '*Cargo.toml' Cargo.lock src localstack tests tools | sort -zu | xargs -0 cp --parents -t "$scratch"
(cd "$scratch" && SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-0} "$cyclonedx" cyclonedx -qq --manifest-path "$folder/Cargo.toml" \
  --format json --spec-version 1.5 --describe binaries --target "$target" --no-build-deps)
package=$(sed -n 's/^name = "\(.*\)"/\1/p' "$folder/Cargo.toml" | head -1)
cargo tree --locked -p "$package" --target "$target" -e normal --prefix none -f '{p}' |
  sed -n 's/^\([^ ]*\) v\([^ ]*\).*/\1@\2/p' | sort -u >"$scratch/tree"
# References name folders of this machine: they become package URLs.
jq --rawfile tree "$scratch/tree" --arg scratch "$scratch" '
  ($tree | split("\n")) as $tree
  | ([.metadata.component, .components[]] | map({key: ."bom-ref", value: "\(.name)@\(.version)"}) | from_entries) as $names
  | .components |= map(select("\(.name)@\(.version)" as $name | $tree | index($name)))
  | ([.metadata.component, .components[]] | map(."bom-ref")) as $kept
  | .dependencies |= (map(select(.ref as $ref | $kept | index($ref)))
      | map(if .dependsOn then .dependsOn |= map(select(. as $ref | $kept | index($ref))) else . end))
  | walk(if type == "string" then gsub("path\\+file://" + $scratch + "/"; "path:") else . end)
' "$scratch/$folder/${program}_bin.cdx.json" >"$out"
# The program itself is the subject, not a component.
jq -r '.components[] | "\(.name)@\(.version)"' "$out" | sort -u | diff - <(grep -vx "$package@.*" "$scratch/tree") >&2 ||
  { echo "sbom: $out does not list what cargo tree lists" >&2; exit 1; }
if grep -q "$scratch" "$out"; then echo "sbom: $out names a folder of this machine" >&2; exit 1; fi
