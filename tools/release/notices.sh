#!/usr/bin/env bash
# Writes the licence texts of everything that is in the programs and the image: of the crates, from their sources; of Rust's
# standard library, from the toolchain; of the rest, from deploy/image/licenses.
#   tools/release/notices.sh FILE
set -euo pipefail
cd "$(dirname "$0")/../.."

out=${1:?"notices: write tools/release/notices.sh FILE"}
about=$(tools/release/tools.sh cargo-about)
${CARGO:-cargo} fetch --locked --quiet
"$about" generate --locked --offline --fail --manifest-path src/cli/Cargo.toml --config tools/release/about.toml \
  --output-file "$out" tools/release/about.hbs
section() {
  printf '\n%s\n%s\n%s\n\n' "$(printf '=%.0s' {1..80})" "$1" "$(printf '=%.0s' {1..80})"
  cat
}
library="$(rustc --print sysroot)/share/doc/rust/COPYRIGHT-library.html"
{
  # The page of the toolchain as text: without tags, entities and repeated empty lines.
  sed -e '1,/<body>/d' -e 's/<[^>]*>//g' -e "s/&#39;/'/g; s/&#34;/\"/g; s/&quot;/\"/g; s/&lt;/</g; s/&gt;/>/g; s/&amp;/\&/g" \
    -e 's/[[:space:]]*$//' "$library" | cat -s | section "Rust's standard library (MIT OR Apache-2.0, and others)"
  section "glibc (LGPL-2.1-or-later and others), in the Linux programs" <deploy/image/licenses/glibc.txt
  section "libgcc (GPL-3.0-or-later WITH GCC-exception-3.1), in the Linux programs" <deploy/image/licenses/libgcc.txt
  section "kube, kube-client, kube-core, kube-derive, kube-runtime" <deploy/image/licenses/kube.txt
  section "base64-simd, vsimd" <deploy/image/licenses/nugine-simd.txt
  section "The certificates of public CAs, in the image (MPL-2.0)" <<<"This is Mozilla's list, as the Python package certifi contains it, in its source form: PEM. It is under the Mozilla Public
License 2.0, https://www.mozilla.org/MPL/2.0/."
} >>"$out"
