// Package examples carries the prebuilt modules that commands start from.
package examples

import "embed"

// Fraud is examples/fraud: keyed payments in, alerts out.
//
//go:embed fraud/fraud.wasm
var Fraud []byte

// WordCount is examples/wordcount: split and count.
//
//go:embed wordcount/wordcount.wasm
var WordCount []byte

// Questions is the folder flights/questions: pipelines that answer questions about the flights.
//
//go:embed flights/questions/*.yaml
var Questions embed.FS
