#!/usr/bin/env bash
# Prints the path of the certificates of public CAs that the image contains: Mozilla's list, as the Python package certifi has it.
# The version is fixed, so that every machine makes the same image.
set -euo pipefail

version=2026.10.18
sum=73191c47aaa79da394e8fee2dbc2ec827432cab56311122c9e47abf79e390f62
folder="${XDG_CACHE_HOME:-$HOME/.cache}/headgate/tools/certifi-$version"
if [ ! -s "$folder/cacert.pem" ]; then
  mkdir -p "$(dirname "$folder")"
  unfinished=$(mktemp -d "$folder.XXXXXX")
  trap 'rm -rf "$unfinished"' EXIT
  (
    cd "$unfinished"
    echo "certifi==$version --hash=sha256:$sum" >requirements.txt
    python3 -m pip download --quiet --disable-pip-version-check --no-deps --require-hashes -r requirements.txt
    python3 -m zipfile -e certifi-*.whl .
    mv certifi/cacert.pem .
  ) >&2
  chmod 755 "$unfinished"
  rm -rf "$folder"
  mv "$unfinished" "$folder"
  trap - EXIT
fi
echo "$folder/cacert.pem"
