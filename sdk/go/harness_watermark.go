//go:build !wasip1

package millrace

// Said is what a watermark function says behind a record; OK false: nothing.
type Said struct {
	MS int64
	OK bool
}

// Watermarks hands records to a watermark function in one call. A record at which it fails is among the
// Failures.
func (h *Harness) Watermarks(records ...Input) []Said {
	if h.fn.Watermark == nil {
		panic("millrace: only watermark functions say watermarks")
	}
	for i := range records {
		records[i].Offset = uint64(i)
	}
	h.run(newBlock(kindWatermarks, h, records), records)
	said := make([]Said, len(records))
	for _, o := range h.Outputs() {
		said[o.Offset] = Said{o.Time, true}
	}
	return said
}
