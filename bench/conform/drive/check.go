package drive

import (
	"math/rand"

	"github.com/millrace-io/millrace/bench/conform/corpus"
)

// Check runs a case plainly and in all variants and returns what is wrong; none: it passed. runs is the
// number of runs. err is ErrNotBuilt, or a case that this driver can't read.
func (w *World) Check(c *corpus.Case, full bool, seed int64) (wrong []string, runs int, err error) {
	plain, err := w.Run(c, Plain(c))
	if err != nil {
		return nil, 0, err
	}
	wrong, runs = corpus.Judge(&c.Expected, plain), 1
	for _, v := range Variants(c, full, rand.New(rand.NewSource(seed))) {
		got, err := w.Run(c, v)
		if err != nil {
			wrong = append(wrong, v.Name+": "+err.Error())
			continue
		}
		runs++
		if err := Same(plain, got, v); err != nil {
			wrong = append(wrong, err.Error())
		}
	}
	return wrong, runs, nil
}
