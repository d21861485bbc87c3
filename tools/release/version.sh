#!/usr/bin/env bash
# Prints the version of the workspace. With an argument, fails if that is another version.
set -euo pipefail
cd "$(dirname "$0")/../.."

version=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' Cargo.toml)
if [ $# -gt 0 ] && [ "$1" != "$version" ]; then
  echo "version: Cargo.toml has version $version. Set VERSION=$version, or change Cargo.toml, Chart.yaml and CHANGELOG.md to $1." >&2
  exit 1
fi
for line in "version: $version" "appVersion: \"$version\""; do
  grep -qx "$line" deploy/helm/headgate/Chart.yaml ||
    { echo "version: deploy/helm/headgate/Chart.yaml has no line '$line', the version in Cargo.toml" >&2; exit 1; }
done
echo "$version"
