#!/usr/bin/env bash
# Builds the static programs of headgate's image and release for a processor, and puts them into a folder.
#   tools/release/build.sh amd64|arm64 dev|release FOLDER
# PROGRAMS=FOLDER takes static programs that were built before, and builds nothing.
# For another processor than the machine's, tools/release/cross.sh fetches what that needs. Each program is started once, there
# in an emulator: what does not start is not built.
set -euo pipefail
cd "$(dirname "$0")/../.."

arch=${1:-} profile=${2:-} folder=${3:-}
usage() { echo "build: $1; write tools/release/build.sh amd64|arm64 dev|release FOLDER" >&2; exit 2; }
host=$(rustc -vV | sed -n 's/^host: //p')
case "$arch" in
  amd64) target=x86_64-unknown-linux-gnu ;;
  arm64) target=aarch64-unknown-linux-gnu ;;
  *) usage "'$arch' is no processor that Headgate is built for" ;;
esac
case "$profile" in
  dev) built=debug ;;
  release) built=release ;;
  *) usage "'$profile' is no profile" ;;
esac
[ -n "$folder" ] || usage "a folder is missing"

strip=strip run=()
if [ "${host%%-*}" = "${target%%-*}" ]; then
  target=$host
else
  tools=$(tools/release/cross.sh "$target")
  strip=$tools/strip run=("$tools/run")
  lower=${target//-/_}
  export "CC_$lower=$tools/cc" "AR_$lower=$tools/ar" "CARGO_TARGET_${lower^^}_LINKER=$tools/cc"
fi

# Static: the C library is linked in, for an image that has nothing else in it. With an explicit target, because build scripts
# and macros cannot be static, and a folder of its own, because other flags build every dependency again.
programs=${PROGRAMS:-}
if [ -z "$programs" ]; then
  RUSTFLAGS="-C target-feature=+crt-static" ${CARGO:-cargo} build --locked --profile "$profile" --target "$target" \
    --target-dir target/static -p headgate-cli -p headgate-hold --bin headgate --bin headgate-hold
  programs=target/static/$target/$built
fi
mkdir -p "$folder"
for program in headgate headgate-hold; do
  # An image has no dynamic linker: a program that asks for one would not start there.
  if readelf --program-headers "$programs/$program" | grep INTERP >/dev/null; then
    echo "build: $programs/$program is not static. Build it with RUSTFLAGS='-C target-feature=+crt-static' and a --target." >&2
    exit 1
  fi
  "$strip" --strip-debug -o "$folder/$program" "$programs/$program"
done

starts() {
  local expected=$1 said
  shift
  said=$("${run[@]}" "$@" 2>&1) || { echo "build: $* failed: $said" >&2; exit 1; }
  [[ $said == *"$expected"* ]] || { echo "build: $* does not say $expected: $said" >&2; exit 1; }
}
version=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' Cargo.toml)
starts "headgate $version" "$folder/headgate" --version
starts --webhook-address "$folder/headgate" run --help
starts "" "$folder/headgate-hold" 0 run true
