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
