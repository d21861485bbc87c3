#!/usr/bin/env bash
# Builds the static programs of Headgate's image and release for a processor, and writes them to a folder.
#   tools/release/build.sh amd64|arm64 dev|release FOLDER
# PROGRAMS=FOLDER takes static programs that were built before, and builds nothing.
# For another processor than the machine's, tools/release/cross.sh fetches what that needs. Each program is started once, in an
# emulator if necessary, so that a program that does not start is never released.
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

# Static: the C library is linked in, because the image contains nothing else. The target is explicit, because build scripts and
# macros cannot be static. The target folder is a separate one, because other flags build every dependency again.
programs=${PROGRAMS:-}
if [ -z "$programs" ]; then
  flags="-C target-feature=+crt-static"
  static=target/static
  if [ "$profile" = release ]; then
    # The folders of this machine are not in the programs: two clones build the same bytes.
    cargo_home=${CARGO_HOME:-$HOME/.cargo} sysroot=$(rustc --print sysroot)
    flags+=" --remap-path-prefix=$PWD=/headgate --remap-path-prefix=$cargo_home=/cargo --remap-path-prefix=$sysroot=/rust"
    export CFLAGS="-ffile-prefix-map=$PWD=/headgate -ffile-prefix-map=$cargo_home=/cargo"
    static=target/static-release
  fi
  RUSTFLAGS=$flags ${CARGO:-cargo} build --locked --profile "$profile" --target "$target" \
    --target-dir "$static" -p headgate-cli -p headgate-hold --bin headgate --bin headgate-hold
  programs=$static/$target/$built
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
  [[ $said == *"$expected"* ]] || { echo "build: $* does not print $expected: $said" >&2; exit 1; }
}
version=$(tools/release/version.sh)
starts "headgate $version" "$folder/headgate" --version
starts --webhook-address "$folder/headgate" run --help
starts "" "$folder/headgate-hold" 0 run true
