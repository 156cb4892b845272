package guestop

import "github.com/millrace-io/millrace/state/memimage"

// Imager is a Guest whose own variables can be captured and adopted. Between calls only.
type Imager interface {
	// Capture hands each page that differs from its hash in prev (nil: each that is not all zero) to page; the
	// bytes are borrowed. A page behind the end of prev counts as zero there.
	Capture(seed uint64, prev *memimage.Image, page func(n int, b []byte) error) (*memimage.Image, error)
	// Adopt makes the instance what it was at a capture, also by another engine. page fills in page n, which is
	// zero before; it is asked for those whose hash is not that of a zero page. Errors: another module, hashes that
	// differ, memory over the limit. After one the instance is to be closed.
	Adopt(seed uint64, img *memimage.Image, page func(n int, b []byte) error) error
}

// Saver is a Guest whose own variables can go over to another module's: as a stream of bytes that the guests'
// code writes and reads. Between calls only; an instance that has saved, or failed, is to be closed.
type Saver interface {
	// Save runs mr_save until the stream ends. Errors: a *Fault of the guest's code; those of part.
	Save(part func(b []byte) error) error
	// Load runs mr_load on a part of a stream, borrowed; at the end on an empty one. Errors: a *Fault.
	Load(part []byte) error
}
