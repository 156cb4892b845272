// Package record keeps the input that followed a snapshot: what every task of every source gave from the positions
// in the snapshot on, so that a change can be tried on it where the sources are not.
//
// A recording is the text "MRINPUT1" and blocks. A block is a header of 24 bytes, little endian, and its body:
//
//	0   u32  bytes of the body as stored
//	4   u32  bytes of the body as it was
//	8   u8   kind: 1 what was recorded (JSON, the first block), 2 events, 3 the end (JSON, the last block)
//	9   u8   how it is stored: 0 as it is, 1 a Zstandard frame
//	10  u16  events: number of the source in the first block
//	12  u32  events: number of the source's task
//	16  u32  number of the block, from 0
//	20  u32  CRC-32C of the header before this, and of the body as stored
//
// Events are those of one task of one source, in order: see event. Blocks of several tasks are in the order of
// event time, as far as they go. The end has totals, positions, and the SHA-256 of all before it.
package record

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/checkpoint"
	"github.com/millrace-io/millrace/operators"
)

// FormatVersion is the version of recordings that this build writes and reads.
const FormatVersion = 1

const (
	magic       = "MRINPUT1"
	blockHeader = 24
	blockBytes  = 256 << 10 // of events, as they were: then a block ends
	mostBytes   = 32 << 20  // of a block: a batch of the largest records fits many times
)

const (
	kindHeader = 1
	kindEvents = 2
	kindEnd    = 3
)

const (
	storedPlain = 0
	storedZstd  = 1
)

// Errors of recordings.
var (
	// ErrNotRecording: the bytes are something else, or of a later version.
	ErrNotRecording = errors.New("not a recorded input")
	// ErrDamaged: they are not what was recorded; the message names the block.
	ErrDamaged = errors.New("recorded input is damaged")
	// ErrUnreadable: a source can't be read again from a snapshot.
	ErrUnreadable = errors.New("the input can't be recorded")
	// ErrOther: a pipeline would not take from its sources what was recorded.
	ErrOther = errors.New("the recorded input is of other sources")
)

// Header says what was recorded. It is the first block, as JSON.
type Header struct {
	Format   int           `json:"format"`
	Job      string        `json:"job"`
	Snapshot checkpoint.ID `json:"snapshot"`
	// To is the snapshot whose positions the recording ends at; 0: it ends by Limit or where the input ended.
	To    checkpoint.ID `json:"to,omitempty"`
	Limit int64         `json:"limit,omitempty"` // records asked for; 0: all there were
	// Keys are those whose records were recorded; empty: all.
	Keys    []string `json:"keys,omitempty"`
	Sources []Source `json:"sources"` // in the order of the pipeline
}

// Source is a source as it was recorded.
type Source struct {
	Operator    string `json:"operator"`
	Parallelism int    `json:"parallelism"`
	// Places says how positions are named: by line, row, byte or number.
	Places string               `json:"places"`
	Schema []abi.Field          `json:"schema,omitempty"` // of the values; empty: raw bytes
	Key    *operators.KeyByNode `json:"key,omitempty"`    // that the source made
	Keyed  bool                 `json:"keyed,omitempty"`
	// Splits is where each stood in the snapshot.
	Splits []checkpoint.SplitPosition `json:"splits"`
}

// End closes a recording. It is the last block, as JSON.
type End struct {
	Records  int64     `json:"records"`
	Rejected int64     `json:"rejected"` // that the sources' error policies sent away as dead letters
	Blocks   int       `json:"blocks"`   // before this one
	Tasks    []TaskEnd `json:"tasks"`
	SHA256   string    `json:"sha256"` // of all before this block
	Times    [2]int64  `json:"times"`  // least and greatest event time, ms; abi.NoTime: no record had one
	Dropped  int64     `json:"dropped,omitempty"`
}

// TaskEnd is where a task of a source stood at the end.
type TaskEnd struct {
	Source string `json:"source"`
	Task   int    `json:"task"`
	// Over: it had read everything there will ever be.
	Over    bool                       `json:"over"`
	Idle    bool                       `json:"idle,omitempty"`
	Records int64                      `json:"records"`
	Splits  []checkpoint.SplitPosition `json:"splits"`
}

// Over says that all input there will ever be was recorded.
func (e *End) Over() bool {
	for _, t := range e.Tasks {
		if !t.Over {
			return false
		}
	}
	return true
}

// block is one block's header.
type block struct {
	stored, raw int
	kind, how   byte
	source      int
	task        int
	number      int
	crc         uint32
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// encode writes the header of a body as stored.
func (b *block) encode(body []byte) []byte {
	h := make([]byte, blockHeader)
	binary.LittleEndian.PutUint32(h, uint32(len(body)))
	binary.LittleEndian.PutUint32(h[4:], uint32(b.raw))
	h[8], h[9] = b.kind, b.how
	binary.LittleEndian.PutUint16(h[10:], uint16(b.source))
	binary.LittleEndian.PutUint32(h[12:], uint32(b.task))
	binary.LittleEndian.PutUint32(h[16:], uint32(b.number))
	binary.LittleEndian.PutUint32(h[20:], crc32.Update(crc32.Checksum(h[:20], castagnoli), castagnoli, body))
	return h
}

// decodeBlock reads a header that is to be of block number.
func decodeBlock(h []byte, number int) (block, error) {
	b := block{stored: int(binary.LittleEndian.Uint32(h)), raw: int(binary.LittleEndian.Uint32(h[4:])), kind: h[8], how: h[9],
		source: int(binary.LittleEndian.Uint16(h[10:])), task: int(binary.LittleEndian.Uint32(h[12:])),
		number: int(binary.LittleEndian.Uint32(h[16:])), crc: binary.LittleEndian.Uint32(h[20:])}
	if b.number != number || b.stored > mostBytes || b.raw > mostBytes || b.kind < kindHeader || b.kind > kindEnd || b.how > storedZstd {
		return b, fmt.Errorf("%w: block %d has no header of one", ErrDamaged, number)
	}
	return b, nil
}

// check compares a body with its header.
func (b *block) check(h, body []byte) error {
	if got := crc32.Update(crc32.Checksum(h[:20], castagnoli), castagnoli, body); got != b.crc {
		return fmt.Errorf("%w: block %d: its CRC-32C is %08x, its header says %08x", ErrDamaged, b.number, got, b.crc)
	}
	return nil
}
