#!/usr/bin/env bash
# Builds the documentation as a site with search, in target/site.
#   tools/site/build.sh URL    the URL of the repository's files, for links that leave docs/
set -euo pipefail
cd "$(dirname "$0")/../.."
url=${1:?Set the URL of the files of the repository, such as https://example.com/headgate/blob/main}
version=0.5.4
tool="${XDG_CACHE_HOME:-$HOME/.cache}/headgate/tools/mdbook-$version"

if [ ! -x "$tool/bin/mdbook" ]; then
  echo "Building mdbook $version once: some minutes." >&2
  ${CARGO:-cargo} install --quiet --locked --version "$version" --root "$tool" mdbook
fi

pages=target/site-pages
rm -rf "$pages"
mkdir -p target
cp -R docs "$pages"
# A link that leaves docs/ leads to the repository.
find "$pages" -name '*.md' -print0 | while IFS= read -r -d '' page; do
  folder=$(dirname "${page#"$pages"/}")
  up=../
  if [ "$folder" != . ]; then up=$(printf '../%.0s' $(seq $(($(tr -cd / <<<"$folder" | wc -c) + 2)))); fi
  sed -i "s#](${up//./\\.}#](${url%/}/#g" "$page"
done
"$tool/bin/mdbook" build --dest-dir "$PWD/target/site" "$pages"
echo "The site is in target/site."
