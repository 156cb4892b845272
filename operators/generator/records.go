package generator

import (
	"encoding/binary"
	"math/bits"
	"strconv"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/operators"
	"github.com/millrace-io/millrace/operators/format"
)

// Kinds of generators.
const (
	Counter  = "counter"  // 12-byte uniform keys, binary values: for measuring
	Sequence = "sequence" // per key n = 1, 2, 3, ...: for finding lost and doubled records
	Payments = "payments" // card payments with planted fraud
)

// maker makes record i of a kind. Everything is a function of the spec and i.
type maker interface {
	// key is the number of record i's key, 0 <= key < Keys. A split holds the keys of its residue class.
	key(i int64) int64
	// record sets key and value of r, borrowed until the next call.
	record(i int64, r *abi.Record)
}

// mix is a bijection of 64 bits that looks random (the finaliser of splitmix64).
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// below maps a random x to 0 <= r < n.
func below(x uint64, n int64) int64 {
	hi, _ := bits.Mul64(x, uint64(n))
	return int64(hi)
}

// appendKey appends a 12-byte key.
func appendKey(dst []byte, k int64) []byte {
	var d [11]byte
	for i := len(d) - 1; i >= 0; i-- {
		d[i] = byte('0' + k%10)
		k /= 10
	}
	return append(append(dst, 'k'), d[:]...)
}

type counter struct {
	spec *operators.GeneratorSpec
	kb   []byte
	vb   []byte
}

func (c *counter) key(i int64) int64 { return below(mix(c.spec.Seed^mix(uint64(i))), c.spec.Keys) }

func (c *counter) record(i int64, r *abi.Record) {
	c.kb = appendKey(c.kb[:0], c.key(i))
	c.vb = binary.LittleEndian.AppendUint64(c.vb[:0], uint64(i))
	for x := uint64(i); len(c.vb) < c.spec.ValueBytes; x++ {
		c.vb = binary.LittleEndian.AppendUint64(c.vb, x*0x9e3779b97f4a7c15)
	}
	r.Key, r.Value = c.kb, c.vb[:c.spec.ValueBytes]
}

type sequence struct {
	spec *operators.GeneratorSpec
	kb   []byte
	vb   []byte
}

func (s *sequence) key(i int64) int64 { return i % s.spec.Keys }

func (s *sequence) record(i int64, r *abi.Record) {
	s.kb = appendKey(s.kb[:0], s.key(i))
	s.vb = append(append(append(s.vb[:0], `{"key":"`...), s.kb...), `","n":`...)
	s.vb = strconv.AppendInt(s.vb, i/s.spec.Keys+1, 10)
	s.vb = append(s.vb, '}')
	r.Key, r.Value = s.kb, s.vb
}

// PaymentFields is the schema of a payment.
var PaymentFields = []abi.Field{{Name: "card", Type: abi.TypeString}, {Name: "amount", Type: abi.TypeInt64},
	{Name: "merchant", Type: abi.TypeString}, {Name: "time", Type: abi.TypeTime}}

var merchants = []string{"Bakery Lund", "Cafe Mercator", "Hardware Ortiz", "Kiosk 24", "Market Hall", "Metro Lines",
	"Pharmacy Nord", "Petrol Station A7", "Quick Taxi", "Station Books", "Summit Sports", "Wine & Co"}

// block is the number of payments in which one fraud and its decoys are planted.
const block = 1000

// FraudWindowMS is how soon a large payment must follow a small one on the same card to be a fraud.
const FraudWindowMS = 60_000

// Amounts in cents: a small payment is below SmallAmount, a large one above LargeAmount; all others lie between.
const (
	SmallAmount = 100
	LargeAmount = 50_000
)

// payments plants in each block of 1,000 on cards of their own: a fraud (a small payment, then a large
// one soon), a small payment alone, a large one alone, and a small one whose large one comes too late.
type payments struct {
	spec *operators.GeneratorSpec
	json bool
	row  *format.RowBuilder
	enc  *format.RowEncoder
	card []byte
	buf  []byte
}

func newPayments(s *operators.GeneratorSpec, json bool) *payments {
	return &payments{spec: s, json: json, row: format.NewRowBuilder(len(PaymentFields)), enc: format.NewRowEncoder(PaymentFields)}
}

// plan is what is planted in a block: places in it, and the first of the four cards.
type plan struct {
	cards                    int64
	small, large             int64 // the fraud
	onlySmall, onlyLarge     int64
	earlySmall, tooLateLarge int64 // -1 if the block is too short in event time
}

func (p *payments) plan(b int64) plan {
	h := mix(p.spec.Seed ^ mix(uint64(b)*2+1))
	// neighbouring blocks take cards of another parity, so that decoys do not meet
	pl := plan{cards: (below(mix(h), p.spec.Keys/8)*2 + b&1) * 4, earlySmall: -1, tooLateLarge: -1}
	pl.small = 100 + int64(h%400)
	gap := int64(20)
	if p.spec.StepMS > 0 {
		gap = max(1, min(gap, FraudWindowMS/2/p.spec.StepMS))
	}
	pl.large = pl.small + 1 + int64(h>>16%uint64(gap))
	pl.onlySmall = 600 + int64(h>>24%200)
	pl.onlyLarge = 50 + int64(h>>32%40)
	if p.spec.StepMS > 0 {
		if late := FraudWindowMS/p.spec.StepMS + 10; late < block-50 {
			pl.earlySmall = int64(h >> 40 % 40)
			pl.tooLateLarge = pl.earlySmall + late
		}
	}
	return pl
}

// at is the card and the kind of payment i: -1 small, 1 large, 0 ordinary.
func (p *payments) at(i int64) (card int64, kind int) {
	card = below(mix(p.spec.Seed^mix(uint64(i)*2)), p.spec.Keys)
	if p.spec.Keys < 8 {
		return card, 0
	}
	pl := p.plan(i / block)
	switch i % block {
	case pl.small:
		return pl.cards, -1
	case pl.large:
		return pl.cards, 1
	case pl.onlySmall:
		return pl.cards + 1, -1
	case pl.onlyLarge:
		return pl.cards + 2, 1
	case pl.earlySmall:
		return pl.cards + 3, -1
	case pl.tooLateLarge:
		return pl.cards + 3, 1
	}
	if card >= pl.cards && card < pl.cards+4 {
		card = (card + 4) % (p.spec.Keys / 8 * 8)
	}
	return card, 0
}

func (p *payments) key(i int64) int64 { c, _ := p.at(i); return c }

func (p *payments) record(i int64, r *abi.Record) {
	card, kind := p.at(i)
	h := mix(p.spec.Seed ^ mix(uint64(i)*2+0x5bd1))
	cents := 200 + below(h, 40_000)
	switch kind {
	case -1:
		cents = 10 + below(h, 80)
	case 1:
		cents = 60_000 + below(h, 200_000)
	}
	p.card = append(p.card[:0], "4000-"...)
	for d := int64(10_000_000); d > 0; d /= 10 {
		p.card = append(p.card, byte('0'+card/d%10))
	}
	p.row.Reset()
	p.row.Bytes(0, p.card)
	p.row.Int(1, cents)
	p.row.Bytes(2, []byte(merchants[h%uint64(len(merchants))]))
	p.row.Int(3, r.Time)
	r.Key, r.Value = nil, p.row.Row()
	if p.json {
		p.buf, _ = p.enc.Append(p.buf[:0], r.Value) // a row built here is well formed
		r.Value = p.buf
	}
}
