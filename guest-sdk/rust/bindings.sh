#!/bin/sh
# Writes src/bindings.rs anew, from wit/task.wit of this repository and wit/world.wit beside this script.
#
# Needed only when the contract changes or wit-bindgen is updated. Needs the generator:
#   cargo install wit-bindgen-cli --version 0.63.0 --no-default-features --features rust
set -eu
here=$(cd "$(dirname "$0")" && pwd)
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

mkdir -p "$tmp/wit/deps/task"
cp "$here/wit/world.wit" "$tmp/wit/"
cp "$here/../../wit/task.wit" "$tmp/wit/deps/task/"

wit-bindgen rust "$tmp/wit" --world sdk --generate-all --out-dir "$tmp/out" \
  --runtime-path wit_bindgen::rt \
  --pub-export-macro --export-macro-name export_sdk \
  --default-bindings-module atropos_guest::__private::bindings \
  --format
cp "$tmp/out/sdk.rs" "$here/src/bindings.rs"
