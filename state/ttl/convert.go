package ttl

import (
	"errors"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/state"
)

// noteOf is what a snapshot says of a state's stamps; nil: it has none.
func noteOf(in []state.Snapshot, d state.Descriptor) *state.TTLNote {
	for _, s := range in {
		for _, st := range s.States {
			if st.Name == d.Name && st.Kind == string(d.Kind) && st.TTL != nil {
				return st.TTL
			}
		}
	}
	return nil
}

// convert makes restored entries fit the TTL of now. What had expired under the one before stays expired.
func (k *Keyed) convert(i int, d state.Descriptor, was *state.TTLNote) error {
	has := d.TTL.MS > 0
	if !has && was == nil || has && was != nil && *was == *k.notes[d.Name] {
		return nil
	}
	c := converter{k: k, has: has, stamp: k.passed[d.TTL.Domain]}
	if was != nil {
		c.old = &policy{TTL: state.TTL{MS: was.MS, Domain: was.Domain}}
		c.keep = has && was.Domain == d.TTL.Domain
	}
	if has {
		c.policy = k.wraps[i].policy()
	}
	if d.Kind == abi.StateValue {
		v := k.Keyed.Value(i)
		all, ok := v.(state.Restored)
		if !ok {
			return errors.New("this state can not tell what it was restored with")
		}
		return all.Restored(func(key state.Key, raw []byte) error {
			switch what, err := c.change(key, raw); {
			case err != nil || what == kept:
				return err
			case what == dropped:
				return v.Remove(state.NoPos, key)
			}
			return v.Store(state.NoPos, key, c.buf)
		})
	}
	o := k.Keyed.Ordered(i)
	all, ok := o.(state.RestoredEntries)
	if !ok {
		return errors.New("this state can not tell what it was restored with")
	}
	return all.RestoredEntries(func(key state.Key, ukey, raw []byte) error {
		switch what, err := c.change(key, raw); {
		case err != nil || what == kept:
			return err
		case what == dropped:
			return o.Delete(key, ukey)
		}
		return o.Put(key, ukey, c.buf)
	})
}

// converter changes the entries of one state.
type converter struct {
	k      *Keyed
	old    *policy // nil: entries have no stamp
	has    bool    // they shall have one
	policy *policy // then: of now
	keep   bool    // the one they have
	stamp  int64   // else this one
	buf    []byte  // the changed entry
}

// What becomes of an entry.
type fate int

const (
	kept fate = iota
	changed
	dropped
)

func (c *converter) change(key state.Key, raw []byte) (fate, error) {
	v := raw
	if c.old != nil {
		stamp, rest, err := split(raw)
		switch {
		case err != nil:
			return kept, err
		case c.k.expired(c.old, stamp, c.k.passed[c.old.Domain]):
			return dropped, nil
		case c.keep && c.k.expired(c.policy, stamp, c.k.passed[c.policy.Domain]):
			return dropped, nil
		case c.keep:
			return kept, c.k.arm(c.policy, key, stamp)
		}
		v = rest
	}
	if !c.has {
		c.buf = append(c.buf[:0], v...)
		return changed, nil
	}
	c.buf = appendStamped(c.buf[:0], c.stamp, v)
	return changed, c.k.arm(c.policy, key, c.stamp)
}
