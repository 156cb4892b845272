//go:build wasmtime

package guests_test

// onWasmtime: a build with the tag wasmtime runs the guests on that engine, with the same results expected.
const onWasmtime = true
