package why

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/checkpoint"
	"github.com/millrace-io/millrace/checkpoint/snapread"
	"github.com/millrace-io/millrace/checkpoint/snapstore"
	"github.com/millrace-io/millrace/host/clock"
	"github.com/millrace-io/millrace/operators"
	"github.com/millrace-io/millrace/operators/connect"
	"github.com/millrace-io/millrace/operators/format"
	"github.com/millrace-io/millrace/operators/guestop"
	"github.com/millrace-io/millrace/operators/stateview"
)

// ErrNotFound: the run again did not give the output.
var ErrNotFound = errors.New("the output did not come again")

// Options of Explain.
type Options struct {
	Store  *snapstore.Store     // of the job; only read
	From   *checkpoint.Manifest // snapshot to begin at; nil: at the beginning
	Graph  *operators.Graph     // in force behind it, checked against its modules
	Module func(ctx context.Context, n *operators.Node) (guestop.Module, error)
	// Digests of the modules by operator, for people.
	Digests map[string]string
	Connect connect.Env
	Scratch string // a folder that is there and empty; what is left in it is the caller's to remove
	Target  *Target
	Steps   int // steps told of an operator, the last ones; 0: all
	Clock   clock.Clock
	Log     *slog.Logger
}

// Explain runs the job again from a snapshot until the output comes, and tells what gave it. Nothing is
// written but in Scratch. With windows and timers by the clock the output may not come at its time.
//
// Errors: ErrTarget: it can't be explained, and why; ErrNotFound; those of starting a job.
func Explain(ctx context.Context, o Options) (*Story, error) {
	began := o.Clock.Mono()
	x := &explainer{Options: o, givers: givers(o.Graph, o.Target.Sink)}
	if err := errors.Join(explained(x.givers, o.Target.Sink), x.readable()); err != nil {
		return nil, err
	}
	p, err := x.pass(ctx, nil)
	if err != nil {
		return nil, err
	}
	if again := p.told(x.Target); again { // the key was not known, or is another than the output's
		first := p
		if p, err = x.pass(ctx, first); err != nil {
			return nil, err
		}
		p.records += first.records
	}
	own, err := p.chapter(ctx)
	if err != nil {
		return nil, err
	}
	s := &Story{Output: o.Target.Line, Sink: o.Target.Sink.ID, Records: p.records}
	if o.From != nil {
		s.Snapshot = o.From.ID
	}
	if p.node.Kind != operators.NodeSource {
		above, n, err := x.above(ctx, p.node, own)
		if err != nil {
			return nil, err
		}
		s.Chapters, s.Records = above, s.Records+n
	}
	s.Chapters = append(s.Chapters, own)
	s.Millis = (o.Clock.Mono() - began) / 1e6
	return s, nil
}

type explainer struct {
	Options
	givers []giver
	runs   int
}

// readable refuses sources whose records are gone.
func (x *explainer) readable() error {
	var gone []string
	for _, n := range x.Graph.Nodes {
		if n.Source != nil && connect.Promise(n) == operators.PromiseLossy {
			gone = append(gone, fmt.Sprintf("source %s (%s)", n.ID, n.Source.Connector))
		}
	}
	if len(gone) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %s can't be read again", ErrTarget, strings.Join(gone, ", "))
}

// above tells what operators before n made of the records that its steps had.
func (x *explainer) above(ctx context.Context, n *operators.Node, of *Chapter) ([]*Chapter, int64, error) {
	nodes := before(x.Graph, n)
	if len(nodes) == 0 {
		return nil, 0, nil
	}
	from := map[abi.Position]bool{}
	for _, s := range of.Steps {
		if s.Split != nil {
			from[abi.Position{Split: *s.Split, Offset: *s.Offset}] = true
		}
	}
	r, err := x.run(ctx)
	if err != nil {
		return nil, 0, err
	}
	defer r.close()
	for _, b := range nodes {
		r.watch(b, func(f abi.Frame, timer bool) bool { return !timer && from[f.Pos()] }, nil)
	}
	for _, g := range x.givers {
		r.find(g, nil)
	}
	if err := r.do(ctx); err != nil {
		return nil, 0, err
	}
	var out []*Chapter
	for _, b := range nodes {
		c := x.head(b)
		c.Steps, c.Left = r.steps(b.ID)
		out = append(out, c)
	}
	return out, r.records.Load(), nil
}

// head is a chapter without steps.
func (x *explainer) head(n *operators.Node) *Chapter {
	c := &Chapter{Operator: n.ID, Digest: x.Digests[n.ID], Steps: []*Step{}}
	if n.Guest != nil {
		c.Function, c.Module = n.Guest.Function, n.Guest.Module
	}
	return c
}

// found is a pass that came to the output.
type found struct {
	x       *explainer
	node    *operators.Node
	key     []byte // of the cause; nil: it has none
	keyed   bool
	by      []byte // the key that was told; nil: none was
	steps   []*Step
	left    int
	records int64
}

// pass runs until the output comes. before: an earlier pass that found out by what key; nil: that of the
// output is as good a guess as there is.
func (x *explainer) pass(ctx context.Context, before *found) (*found, error) {
	r, err := x.run(ctx)
	if err != nil {
		return nil, err
	}
	defer r.close()
	by := x.Target.key()
	if before != nil {
		by = before.key
	}
	for _, g := range x.givers {
		r.find(g, by)
	}
	if err := r.do(ctx); err != nil {
		return nil, err
	}
	if r.hit == nil {
		return nil, fmt.Errorf("%w: %d records were run again from snapshot %d to the end of the input", ErrNotFound, r.records.Load(), x.snapshot())
	}
	f := &found{x: x, node: r.hit.node, key: r.hit.key, keyed: r.hit.keyed, by: by, records: r.records.Load()}
	f.steps, f.left = r.steps(f.node.ID)
	return f, nil
}

func (x *explainer) snapshot() checkpoint.ID {
	if x.From == nil {
		return 0
	}
	return x.From.ID
}

// told says whether the steps of the cause's key were not what was noted.
func (f *found) told(t *Target) (again bool) {
	return f.keyed && (f.by == nil || !slices.Equal(f.by, f.key))
}

// chapter is that of the operator that gave the output.
func (f *found) chapter(ctx context.Context) (*Chapter, error) {
	c := f.x.head(f.node)
	c.Steps, c.Left = f.steps, f.left
	if !f.keyed {
		return c, nil
	}
	c.Key = text(f.key)
	if f.x.From == nil {
		return c, nil
	}
	v := stateview.Open(f.x.From, f.x.Store)
	for _, s := range v.States() {
		if s.Operator == f.node.ID {
			c.Key = keyText(f.key, len(s.Key))
		}
	}
	k := string(c.Key)
	_, err := v.Scan(ctx, stateview.Query{Operator: f.node.ID, Key: &k}, func(row []byte) error {
		c.Before = append(c.Before, slices.Clone(row))
		return nil
	})
	if errors.Is(err, snapread.ErrNoState) { // it keeps none
		err = nil
	}
	return c, err
}

// keyText is a key as state rows show it.
func keyText(key []byte, columns int) json.RawMessage {
	if columns < 2 {
		return text(key)
	}
	var parts []json.RawMessage
	for _, p := range format.SplitKey(key) {
		parts = append(parts, text(p))
	}
	out, _ := json.Marshal(parts) // never fails
	return out
}
