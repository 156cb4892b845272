package millrace

// ofSource makes a watermark function one with OnRecord.
func (f *Function) ofSource() {
	say := f.Watermark
	if say == nil {
		return
	}
	if f.OnRecord != nil || f.Keep != nil || f.Keyed || len(f.Output) > 0 || len(f.SideOutputs) > 0 || len(f.States) > 0 || len(f.Timers) > 0 {
		panic("millrace: watermark function " + f.Name + " has only input besides")
	}
	f.Kind = KindWatermark
	f.OnRecord = func(ctx *Ctx, rec Record) error {
		ms, ok, err := say(ctx, rec)
		if err != nil || !ok {
			return err
		}
		return ctx.Emit().Time(ms).Null()
	}
}

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
