#!/usr/bin/env bash
# Prints the folder of what builds for arm64 on a machine that has another processor: `cc`, `ar`, `strip`, and `run`, which runs
# a static program for it. They are Debian's, fetched once, unpacked into the cache and not installed. Also has rustup fetch
# Rust's standard library for it.
#   tools/release/cross.sh aarch64-unknown-linux-gnu
set -euo pipefail

target=${1:-}
if [ "$target" != aarch64-unknown-linux-gnu ]; then
  echo "cross: no compiler is known for '$target' on this machine" >&2
  exit 1
fi
command -v rustup >/dev/null ||
  { echo "cross: rustup is missing; install it, it has Rust's standard library for $target" >&2; exit 1; }
rustup target list --installed | grep -x "$target" >/dev/null || rustup target add "$target" >&2

folder="${XDG_CACHE_HOME:-$HOME/.cache}/headgate/tools/cross-arm64"
if [ ! -x "$folder/run" ]; then
  command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null ||
    { echo "cross: run this on Debian, whose compiler and emulator are unpacked with apt-get and dpkg-deb" >&2; exit 1; }
  echo "No compiler and emulator for $target in $folder: fetching those of Debian. They are not installed." >&2
  mkdir -p "$(dirname "$folder")"
  unfinished=$(mktemp -d "$folder.XXXXXX")
  trap 'rm -rf "$unfinished"' EXIT
  # The compiler and the emulator, and what they need that this machine lacks.
  wanted=(gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user-static)
  simulate() { LC_ALL=C apt-get install --simulate --reinstall --no-install-recommends -o Debug::NoLocking=1 "${wanted[@]}"; }
  # A fresh machine has no lists yet.
  said=$(simulate 2>/dev/null) || { apt-get update -qq >&2; said=$(simulate); }
  mapfile -t packages < <(awk '/^Inst / { print $2 }' <<<"$said")
  (
    cd "$unfinished"
    apt-get download -qq "${packages[@]}" >&2
    for package in *.deb; do
      dpkg-deb -x "$package" .
      rm "$package"
    done
  )
  find "$unfinished/usr/bin" -name 'qemu-*' ! -name qemu-aarch64-static -delete
  # Their libraries are found where they were unpacked.
  for program in cc:gcc ar:gcc-ar strip:strip; do
    cat >"$unfinished/${program%%:*}" <<EOF
#!/bin/sh
here=\$(dirname "\$(readlink -f "\$0")")
LD_LIBRARY_PATH=\$here/usr/lib/$(uname -m)-linux-gnu exec "\$here/usr/bin/aarch64-linux-gnu-${program#*:}" "\$@"
EOF
    chmod +x "$unfinished/${program%%:*}"
  done
  ln -s usr/bin/qemu-aarch64-static "$unfinished/run"
  chmod 755 "$unfinished"
  rm -rf "$folder"
  mv "$unfinished" "$folder"
  trap - EXIT
fi
echo "$folder"
