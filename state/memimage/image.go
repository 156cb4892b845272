// Package memimage keeps the own variables of guest instances in snapshots: linear memory in pages, of which a
// cut writes those that changed, and mutable globals.
//
// A snapshot of an instance is one table (where each page is, its hash, the globals) and packs, files of
// pages back to back that several snapshots share. When more of the packs is old than in use, the next cut
// writes all pages anew.
package memimage

import "github.com/zeebo/xxh3"

// PageBytes is the size of a page.
const PageBytes = 4 << 10

// Hash is the hash of a page, with a seed that guests don't know: it finds what changed, and damage.
type Hash = xxh3.Uint128

var zeroPage [PageBytes]byte

// HashOf hashes a page.
func HashOf(b []byte, seed uint64) Hash { return xxh3.Hash128Seed(b, seed) }

// ZeroHash is the hash of a page of zeros, which is never stored.
func ZeroHash(seed uint64) Hash { return HashOf(zeroPage[:], seed) }

// Image says what an instance's variables were between two calls. The pages themselves are elsewhere.
// Globals go by their index in the original module, so that another rewriting of it does not orphan an image.
type Image struct {
	Module  string // digest of the original module
	Pages   []Hash
	Globals []Global
	In, Out uint32 // addresses of the host's buffers
	InBytes int
}

// Global is a mutable global of the original module.
type Global struct {
	Index int
	Bits  uint64
}

// Snapshot is an instance in a manifest.
type Snapshot struct {
	Module string `json:"module"`
	Table  File   `json:"table"`
	Packs  []File `json:"packs"`
}

// File is an object of the snapshot store.
type File struct {
	Object string `json:"object"` // SHA-256, hex
	Size   int64  `json:"size"`   // bytes
}
