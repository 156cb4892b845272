package state

// TTL is how long an entry of a state lives: a value, an element of a list, an entry of a map. The zero
// value is for ever.
type TTL struct {
	MS     int64  // after its stamp, in ms of the domain's clock; 0: for ever
	Domain Domain // the clock it ages by
	OnRead bool   // reading an entry renews its stamp, too; else only writing does
}

// TTLNote says of a state in a snapshot that its entries begin with a stamp (package ttl), and by which
// clock and for how long they lived then.
type TTLNote struct {
	MS     int64  `json:"ms"`
	Domain Domain `json:"domain"`
}

// RestoredEntries is Restored of map and list state.
type RestoredEntries interface {
	// RestoredEntries calls f for every entry the state holds, key by key. f may change entries: it does not
	// see its changes. Only right after the state was opened. What f gets is borrowed for the call.
	RestoredEntries(f func(k Key, ukey, v []byte) error) error
}

// Expiring is keyed state that has a calendar of its own for entries with a TTL.
type Expiring interface {
	Keyed
	// Expiry is the calendar; nil if no descriptor has a TTL.
	Expiry() Timers
}
