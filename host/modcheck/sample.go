package modcheck

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"

	"github.com/millrace-io/millrace/abi"
)

// Sample is records that a function is tried with.
type Sample struct {
	From    string // where they came from
	Fields  []abi.Field
	Records []abi.Record
	Marks   []abi.Mark // Index: of the record before which it holds
}

// SampleRecords is how many records a sample has at most.
const SampleRecords = 512

// segment is the records between two moves of the clock: no batch goes across, so that what a function sees
// as processing time does not depend on the batch size.
const segment = 256

const (
	sampleStart = 1_704_067_200_000 // 2024-01-01T00:00:00Z
	sampleKeys  = 11
)

// shapes are the kinds of values in synthetic samples. A function may refuse some of them.
const shapes = 4

// synthetic makes n records of these shapes from a seed.
func synthetic(fn *abi.Function, fields []abi.Field, kinds []int, n int, seed uint64) *Sample {
	s := &Sample{From: "a synthetic sample", Fields: fields}
	r := rand.New(rand.NewPCG(seed, 0))
	at := int64(sampleStart)
	for i := range n {
		at += 500 + r.Int64N(1000)
		switch i {
		case n / 4:
			at += 3600_000 // timers of minutes become due
		case n / 2:
			at += 3 * 24 * 3600_000
		}
		if i > 0 && i%10 == 0 {
			s.Marks = append(s.Marks, abi.Mark{Index: uint32(i), Watermark: at - 3000})
		}
		rec := abi.Record{Time: at - r.Int64N(2500), Pos: abi.Position{Offset: uint64(i)}}
		if fn.Keyed || i%5 != 0 {
			rec.Key = fmt.Appendf(nil, "k%d", r.IntN(sampleKeys))
		}
		shape := kinds[i%len(kinds)]
		if len(fields) == 0 {
			rec.Value = rawValue(r, shape, i)
		} else {
			rec.Value = rowValue(r, fields, shape, i, rec.Time)
		}
		s.Records = append(s.Records, rec)
	}
	return s
}

var words = []string{"one", "two", "three", "k1", "k2", "open", "7", "42", "o'hare", "zürich"}

// rawValue is what a function of bytes may take: a word, JSON, a number as text or as bytes.
func rawValue(r *rand.Rand, shape, i int) []byte {
	switch shape {
	case 0:
		return []byte(words[r.IntN(len(words))])
	case 1:
		return fmt.Appendf(nil, `{"id":"k%d","n":%d,"word":%q}`, r.IntN(sampleKeys), i, words[r.IntN(len(words))])
	case 2:
		return fmt.Appendf(nil, "k%d %d", r.IntN(sampleKeys), r.IntN(1000))
	}
	return binary.LittleEndian.AppendUint64(nil, uint64(r.IntN(1000)))
}

// rowValue is a row: plain, with nulls, with numbers at the edges, or with long and empty texts.
func rowValue(r *rand.Rand, fields []abi.Field, shape, i int, at int64) []byte {
	var b abi.RowBuilder
	b.Reset(len(fields))
	for j, f := range fields {
		if shape == 1 && r.IntN(3) == 0 {
			continue
		}
		switch f.Type {
		case abi.TypeInt64:
			v := r.Int64N(1000)
			if shape == 2 {
				v = []int64{0, -1, 1 << 40, -1 << 40, 1<<63 - 1}[r.IntN(5)]
			}
			b.SetInt64(j, v)
		case abi.TypeFloat64:
			v := float64(r.Int64N(4000)) / 4
			if shape == 2 {
				v = []float64{0, -0.5, 1e12, -1e-9, 1e300}[r.IntN(5)]
			}
			b.SetFloat64(j, v)
		case abi.TypeBool:
			b.SetBool(j, r.IntN(2) == 0)
		case abi.TypeTime:
			b.SetInt64(j, at)
		case abi.TypeJSON:
			b.SetBytes(j, fmt.Appendf(nil, "[%d,%d]", i, r.IntN(9)))
		default:
			b.SetBytes(j, textValue(r, shape))
		}
	}
	return b.Bytes()
}

func textValue(r *rand.Rand, shape int) []byte {
	if shape == 3 {
		if r.IntN(2) == 0 {
			return []byte{}
		}
		return []byte(fmt.Sprintf("%0*d", 50+r.IntN(200), r.IntN(1000)))
	}
	return []byte(words[r.IntN(len(words))])
}

// batches cuts the sample into batches of n records. step is called behind each segment.
func (s *Sample) batches(n int, hash func(key []byte) uint64, do func(b *abi.Batch) error, step func() error) error {
	var b abi.Batch
	marks := s.Marks
	for lo := 0; lo < len(s.Records); {
		end := min((lo/segment+1)*segment, len(s.Records))
		hi := min(lo+n, end)
		b.Reset()
		for i := lo; i < hi; i++ {
			for len(marks) > 0 && int(marks[0].Index) <= i {
				b.Mark(marks[0].Watermark)
				marks = marks[1:]
			}
			b.Append(&s.Records[i])
			b.Hash = append(b.Hash, hash(s.Records[i].Key))
		}
		if hi == len(s.Records) {
			for _, m := range marks {
				b.Mark(m.Watermark)
			}
		}
		if err := do(&b); err != nil {
			return err
		}
		if lo = hi; lo == end {
			if err := step(); err != nil {
				return err
			}
		}
	}
	return nil
}
