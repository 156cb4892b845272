#!/bin/sh
# Builds crash.wasm, which is committed, so that crash runs need no Rust. Without a toolchain it says so
# and leaves the committed module.
set -eu
cd "$(dirname "$0")"
root=$(cd ../../.. && pwd)
export RUSTC="${RUSTC:-/usr/bin/rustc}" CARGO_TARGET_DIR="$root/.build/crash"
cargo=${CARGO:-/usr/bin/cargo}
if ! [ -x "$cargo" ] || ! [ -d "$("$RUSTC" --print target-libdir --target wasm32-unknown-unknown)" ]; then
	echo "crash guest: no Rust for wasm32-unknown-unknown, the committed module stays"
	exit 0
fi
RUSTFLAGS="-C target-feature=+bulk-memory --remap-path-prefix=$root=." \
	"$cargo" build --quiet --offline --release --target wasm32-unknown-unknown --manifest-path rust/Cargo.toml 2>/dev/null
cp "$CARGO_TARGET_DIR/wasm32-unknown-unknown/release/crash.wasm" crash.wasm
chmod 644 crash.wasm
sha256sum crash.wasm >crash.wasm.sha256
