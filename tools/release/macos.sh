#!/usr/bin/env bash
# Builds the client for Macs, on a Mac, and writes it to a folder.
#   tools/release/macos.sh arm64|amd64 FOLDER
set -euo pipefail
cd "$(dirname "$0")/../.."

arch=${1:-} folder=${2:-}
case "$arch" in
  arm64) target=aarch64-apple-darwin ;;
  amd64) target=x86_64-apple-darwin ;;
  *) echo "macos: write tools/release/macos.sh arm64|amd64 FOLDER" >&2; exit 2 ;;
esac
[ -n "$folder" ] || { echo "macos: a folder is missing" >&2; exit 2; }
RUSTUP_TOOLCHAIN=$(cat tools/release/rust-version)
export RUSTUP_TOOLCHAIN
RUSTFLAGS="--remap-path-prefix=$PWD=/headgate --remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}=/cargo" \
  cargo build --locked --release --target "$target" -p headgate-cli --bin headgate
mkdir -p "$folder"
install -m 755 "target/$target/release/headgate" "$folder/headgate"
# A Mac with an Apple processor also runs programs for Intel's.
version=$("$folder/headgate" --version)
[ "$version" = "headgate $(tools/release/version.sh)" ] || { echo "macos: unexpected version '$version'" >&2; exit 1; }
