package guestop

import "github.com/zeebo/xxh3"

// ImagePageBytes is the size of a page of an image.
const ImagePageBytes = 4 << 10

// Image says what the own variables of an instance were between two calls: its linear memory, as hashes of
// its pages, and its mutable globals. The pages themselves are the caller's to keep. Globals go by their
// index in the original module, so that another rewriting of it does not orphan an image.
type Image struct {
	Module  string         // digest of the original module
	Pages   []xxh3.Uint128 // hash of each page, with the seed of the capture
	Globals []ImageGlobal
	In, Out uint32 // addresses of the host's buffers
	InBytes int
}

// ImageGlobal is a mutable global of the original module.
type ImageGlobal struct {
	Index int
	Bits  uint64
}

// Imager is a Guest whose memory can be captured and adopted. Between calls only.
type Imager interface {
	// Capture hands each page that differs from its hash in prev (nil: each that is not all zero) to page; the
	// bytes are borrowed. A page behind the end of prev counts as zero there. A seed that guests don't know
	// keeps them from making two pages that pass for one.
	Capture(seed uint64, prev *Image, page func(n int, b []byte) error) (*Image, error)
	// Adopt makes the instance what it was at a capture, also by another engine. page fills in page n, which is
	// zero before; it is asked for those whose hash is not that of a zero page. Errors: another module, hashes that
	// differ, memory over the limit. After one the instance is to be closed.
	Adopt(seed uint64, img *Image, page func(n int, b []byte) error) error
}
