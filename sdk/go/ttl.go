package millrace

import "strconv"

// TTL is how long a state's values, list elements or map entries live after they were written. A pipeline file
// may say otherwise. The Harness keeps them for ever.
type TTL struct {
	MS     int64  // at least 1
	Domain Domain // the clock they age by. EventTime: they go when the watermark is MS behind their record's time
	OnRead bool   // reading makes them young again, too; of a value that comes with the batch every record of its key is a reader
}

// Expiring declares s with a TTL, in Function.States: Expiring(seen, TTL{MS: 3_600_000}). The function goes on
// using s itself. It panics if t.MS is not positive.
func Expiring(s State, t TTL) State {
	if t.MS <= 0 {
		panic("millrace: a TTL is at least 1 ms")
	}
	return expiring{s, t}
}

type expiring struct {
	State
	ttl TTL
}

func describeTTL(b []byte, s State) []byte {
	e, ok := s.(expiring)
	if !ok {
		return b
	}
	b = strconv.AppendInt(append(b, `,"ttl":{"ms":`...), e.ttl.MS, 10)
	if e.ttl.Domain == ProcessingTime {
		b = append(b, `,"domain":"processing"`...)
	}
	if e.ttl.OnRead {
		b = append(b, `,"refresh":"read"`...)
	}
	return append(b, '}')
}
