#!/usr/bin/env bash
# Builds what the demo runs and nothing else: headgate, the local world with simulated nodes, the demo, and Kubernetes.
#   tools/demo/build.sh FOLDER     the folder into which cargo puts programs, such as target/debug
set -euo pipefail
cd "$(dirname "$0")/../.."

folder=${1:?Name the folder into which cargo puts programs, such as target/debug}
# One selection for both commands: cargo builds dependencies again for a selection that needs other features of them.
packages=(-p headgate-demo -p headgate-cli -p localstack-world -p localstack-elbv2 -p localstack-kubelet)

# Kubernetes takes the longest, so its build begins as soon as the program that knows how is there.
${CARGO:-cargo} build --locked "${packages[@]}" --bin world
"$folder/world" kubernetes >/dev/null &
kubernetes=$!
trap 'kill $kubernetes 2>/dev/null || true' EXIT
${CARGO:-cargo} build --locked "${packages[@]}" --bins
wait $kubernetes
trap - EXIT
