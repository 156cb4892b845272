// Package examples carries the prebuilt modules that commands start from.
package examples

import _ "embed"

// Fraud is examples/fraud: keyed payments in, alerts out.
//
//go:embed fraud/fraud.wasm
var Fraud []byte

// WordCount is examples/wordcount: split and count.
//
//go:embed wordcount/wordcount.wasm
var WordCount []byte
