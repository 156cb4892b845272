package stdio

import (
	"io"

	"github.com/millrace-io/millrace/operators"
)

// NewSource reads lines from r, once.
func NewSource(n *operators.Node, r io.Reader) operators.Source {
	given := false
	return operators.NewLineStream(n, "stdin", func() (io.ReadCloser, error) {
		if given {
			return nil, io.EOF
		}
		given = true
		return closer{r}, nil
	})
}

// closer closes a reader that can be closed, so that a blocked read ends.
type closer struct{ io.Reader }

func (c closer) Close() error {
	if rc, ok := c.Reader.(io.Closer); ok {
		return rc.Close()
	}
	return nil
}
