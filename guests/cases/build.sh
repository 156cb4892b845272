#!/bin/sh
# Builds the C guests of this folder in place. Needs clang and wasm-ld 14 or newer; the results are
# committed, so that tests need neither.
set -eu
cd "$(dirname "$0")"
CLANG=${CLANG:-clang-19}
for source in */guest.c; do
	dir=$(dirname "$source")
	"$CLANG" --target=wasm32 -O2 -mbulk-memory -msign-ext -fno-builtin-memset -nostdlib -Wall -Wno-infinite-recursion \
		-Wno-int-to-pointer-cast -Wno-pointer-to-int-cast \
		-Wl,--no-entry -Wl,-z,stack-size=16384 -o "$dir/guest.wasm" "$source"
	sha256sum "$dir/guest.wasm"
done
