package abi

// A call block is what the host writes into the guest's input buffer for one call of mr_process.
// Offsets inside it are relative to its start; it starts at an address that is a multiple of 8, and so
// does each table in it. The guest may change value cells in place and nothing else that the host
// reads back.
//
//	0  u32 kind        KindRecords, KindEventTimers, KindProcessingTimers, KindSteps, KindWindows or KindWatermarks
//	4  u32 n           number of records (or timers)
//	8  u32 offsets     table u32[n]: each frame's offset
//	12 u32 keys        table u32[n]: each record's key index; 0 = the stream is not keyed
//	16 u32 nkeys       distinct keys in the block
//	20 u32 nstates     prefetched states
//	24 u32 states      table {u32 base, u32 stride}[nstates]: cell(s, k) is at base[s] + k*stride[s]
//	28 u32 nmarks
//	32 u32 marks       table {u32 index, u32 0, i64 watermark}[nmarks]
//	36 u32 function    index of the descriptor's function to run
//	40 i64 watermark   before record 0
//	48 i64 processing  processing time in ms, frozen for the call
//	56 u64 0
//	64 tables, cells, frames
//
// A value cell: u32 length, u32 flags (CellPresent, CellChanged), then up to max_bytes bytes; stride is
// CellHeader + max_bytes rounded up to 8. To set: write bytes, length, flags = present|changed. To
// clear: flags = changed.
//
// In a timer block a frame is one due timer: time = the timer's time, key = the key, value = its name,
// position = that of the record that last moved the watermark (informative).
//
// In a block of an aggregate's steps a frame is one step (FrameOutput: StepAdd and so on), a key index is the
// number of an accumulator, and the one state is the accumulator: a cell that is not present is an empty one.
// StepAdd, StepRetract: the frame is the record. StepMerge: the value is u32 key indexes of the accumulators
// that come in, in order. StepResult: key = the key, time = the window's last instant, value = a window without
// elements. A later step sees what an earlier one made of its accumulators. The block has no marks, and no
// watermark.
//
// In a block of windows a frame is a window that fires: key, time = its last instant, value = the window and its
// elements: WindowHeader bytes, then WindowCount frames back to back, without keys. Where the window has
// aggregates there is one element, whose value is their row.
//
// In a block for a watermark function a frame is a record of a source. The block has no keys, marks or watermark.
// Of each record the function writes no frame, or one: its time is the watermark of the record's split from behind
// the record on, the rest of it does not count.
const (
	BlockKind       = 0
	BlockN          = 4
	BlockOffsets    = 8
	BlockKeys       = 12
	BlockNKeys      = 16
	BlockNStates    = 20
	BlockStates     = 24
	BlockNMarks     = 28
	BlockMarks      = 32
	BlockFunction   = 36
	BlockWatermark  = 40
	BlockProcessing = 48
	BlockHeader     = 64

	CellHeader  = 8
	CellPresent = 1
	CellChanged = 2
)

// Kinds of call block.
const (
	KindRecords          = 0
	KindEventTimers      = 1
	KindProcessingTimers = 2
	KindSteps            = 3
	KindWindows          = 4
	KindWatermarks       = 8 // 5 to 7 are free
)

// Steps of an aggregate.
const (
	StepAdd     = 0
	StepRetract = 1
	StepMerge   = 2
	StepResult  = 3
)

// A window: i64 start, i64 end (exclusive), u32 revision, u32 number of elements, elements.
const (
	WindowStart    = 0
	WindowEnd      = 8
	WindowRevision = 16
	WindowCount    = 20
	WindowHeader   = 24
)

// The guest writes at the start of its output buffer, before mr_process returns:
//
//	0  u32 consumed  records done since the block's start (first <= consumed <= n)
//	4  u32 bytes     length of the frames that follow
//	8  u32 frames    number of frames
//	12 u32 0
//	16 output frames back to back, in order
const (
	OutConsumed = 0
	OutBytes    = 4
	OutFrames   = 8
	OutHeader   = 16
)

// CellStride is the distance in bytes between two value cells of a state.
func CellStride(maxBytes int) int { return CellHeader + (maxBytes+7)&^7 }
