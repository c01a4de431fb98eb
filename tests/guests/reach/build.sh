#!/bin/sh
# Builds this guest into ../built/reach.wasm, with the toolchain that examples/build.sh describes. The texts of the WASI
# interfaces come from the package `wasmtime-wasi-http` of the host's own lock file.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../../.." && pwd)
target=wasm32-unknown-unknown
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$here/target}"

manifest=$(cargo metadata --locked --format-version 1 --manifest-path "$root/Cargo.toml" |
  tr ',' '\n' | sed -n 's/^"manifest_path":"\(.*wasmtime-wasi-http-[0-9.]*\/Cargo.toml\)"$/\1/p' | head -n 1)
mkdir -p "$here/wit/deps"
cp "$(dirname "$manifest")"/wit/deps/*.wit "$here/wit/deps/"
cp "$root/wit/task.wit" "$here/wit/deps/task.wit"
cp "$here/world.wit" "$here/wit/world.wit"

sysroot=$(rustc --print sysroot 2>/dev/null) || sysroot=
if [ -n "$sysroot" ] && [ -d "$sysroot/lib/rustlib/$target/lib" ]; then
  set --
else
  set -- -Zbuild-std=std,panic_abort
  export RUSTC=/usr/bin/rustc RUSTC_BOOTSTRAP=1
  for linker in "${sysroot:-/nowhere}"/lib/rustlib/*/bin/rust-lld /usr/bin/wasm-ld /usr/bin/wasm-ld-*; do
    if [ -x "$linker" ]; then
      export CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER="$linker"
      break
    fi
  done
  flags=--remap-path-prefix=$here=.
  for from in "$($RUSTC --print sysroot)" "${CARGO_HOME:-$HOME/.cargo}"/registry/src/*; do
    flags=$(printf '%s\037%s' "$flags" "--remap-path-prefix=$from=.")
  done
  export CARGO_ENCODED_RUSTFLAGS="$flags"
fi
cargo build --release --manifest-path "$here/Cargo.toml" --target $target "$@"
mkdir -p "$here/../built"
wasm-tools component new "$CARGO_TARGET_DIR/$target/release/reach.wasm" -o "$here/../built/reach.wasm"
echo "reach.wasm: $(wc -c <"$here/../built/reach.wasm") bytes"
