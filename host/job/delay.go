package job

import "time"

// DelayText writes a delay, rounded up to what is good to write into a pipeline file: 28h for 27h43m.
func DelayText(d time.Duration) string { return short(roundUp(d)) }
