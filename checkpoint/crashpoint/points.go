// Package crashpoint names the places where a process may be killed to prove recovery. Code calls
// Hit(point) there. In a normal build Hit is empty and inlined away; with the build tag crash it
// reads MILLRACE_CRASH=point:nth:action and acts at the nth hit.
package crashpoint

// Names of the crash points. K numbers are those of the crash matrix in docs/testing.md; F numbers
// are points that only publishing by rename has.
const (
	AfterPoll      = "K1"  // a source returned records, no guest has seen them
	MidBatch       = "K2"  // between two records of a batch
	AfterState     = "K3"  // a guest call's state writes are applied, nothing is emitted
	AfterEmit      = "K4"  // outputs are handed on, the sink has not flushed them
	AfterFlush     = "K5"  // the sink flushed its staged bytes, the snapshot has not begun
	MidDelta       = "K6"  // a run file of the snapshot is half written
	AfterWrite     = "K7"  // a file is completely written, not fsynced
	AfterSync      = "K8"  // a file is fsynced, not renamed into place
	AfterRename    = "K9"  // a file is in place, its directory is not fsynced
	MidUpload      = "K10" // some objects of the snapshot are in the store, others are not
	BeforeManifest = "K11" // all objects and staged parts are durable, the manifest is not written
	AfterManifest  = "K12" // the manifest is in place, the sinks have not been told
	TimerFired     = "K17" // a timer's callback ran, its effects are in no checkpoint
	MidRestore     = "K19" // a task is restoring: its state is there, its sources are not positioned
	MidRestoreLoad = "K20" // a task is restoring: some of its runs are loaded, others are not
	BetweenRenames = "F1"  // a sink published one of several staged parts
	AfterCommit    = "F2"  // every sink published, no later checkpoint is complete
	MidSwap        = "K21" // a task cut with the old module and closed it, other tasks may still run it
	AfterSwap      = "K22" // the checkpoint of the swap is complete, nothing of the new code is
	MidRegistry    = "K23" // the registry of savepoints and tags is written, not renamed into place
	MidRetention   = "K24" // an old manifest is deleted, its objects are still there
	BeforeFinal    = "F3"  // input ended, the final checkpoint has not begun
)

// Point is one crash point.
type Point struct {
	Name    string // what Hit is called with
	Meaning string // what has happened when it is hit, and what has not
}

// Points lists every crash point in the order in which a record and its checkpoint meet them.
var Points = []Point{
	{AfterPoll, "a source returned records, no guest has seen them"},
	{MidBatch, "between two records of a batch"},
	{AfterState, "a guest call's state writes are applied, nothing is emitted"},
	{AfterEmit, "outputs are handed on, the sink has not flushed them"},
	{AfterFlush, "the sink flushed its staged bytes, the snapshot has not begun"},
	{MidDelta, "a run file of the snapshot is half written"},
	{AfterWrite, "a file is completely written, not fsynced"},
	{AfterSync, "a file is fsynced, not renamed into place"},
	{AfterRename, "a file is in place, its directory is not fsynced"},
	{MidUpload, "some objects of the snapshot are in the store, others are not"},
	{BeforeManifest, "all objects and staged parts are durable, the manifest is not written"},
	{AfterManifest, "the manifest is in place, the sinks have not been told"},
	{TimerFired, "a timer's callback ran, its effects are in no checkpoint"},
	{MidRestore, "a task is restoring: its state is there, its sources are not positioned"},
	{MidRestoreLoad, "a task is restoring: some of its runs are loaded, others are not"},
	{BetweenRenames, "a sink published one of several staged parts"},
	{AfterCommit, "every sink published, no later checkpoint is complete"},
	{MidSwap, "a task cut with the old module and closed it, other tasks may still run it"},
	{AfterSwap, "the checkpoint of a change is complete, nothing of the new code is"},
	{MidRegistry, "the registry of savepoints and tags is written, not renamed into place"},
	{MidRetention, "an old manifest is deleted, its objects are still there"},
	{BeforeFinal, "input ended, the final checkpoint has not begun"},
}

// Absent lists the points of the crash matrix that this engine does not have, with the reason.
var Absent = []Point{
	{"K13", "offsets added to a broker transaction, not ended: needs a transactional sink"},
	{"K14", "end of a broker transaction sent, answer lost: needs a transactional sink"},
	{"K15", "transaction ended, batch not applied to the store: state here is cut before the commit, never applied after it"},
	{"K16", "batch applied to the store, not synced: as K15"},
	{"K18", "a task is taken away by the group: needs group membership"},
}

// Known says whether name is a crash point.
func Known(name string) bool {
	for _, p := range Points {
		if p.Name == name {
			return true
		}
	}
	return false
}
