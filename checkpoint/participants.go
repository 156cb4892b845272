package checkpoint

import (
	"fmt"
	"strings"
)

// isTask says whether a task belongs to the job.
func (c *Coordinator) isTask(id TaskID) bool {
	for _, task := range c.order {
		if task == id {
			return true
		}
	}
	return false
}

// allFinished: there is nothing left to run.
func (c *Coordinator) allFinished() bool { return len(c.finished) == len(c.order) }

// sourcesFinished: there is no one left to send a barrier.
func (c *Coordinator) sourcesFinished() bool {
	for task := range c.sources {
		if _, ok := c.finished[task]; !ok {
			return false
		}
	}
	return true
}

// missing counts the tasks that neither acknowledged f nor finished before its cut.
func (c *Coordinator) missing(f *flight) int {
	n := 0
	for _, task := range c.order {
		if !c.present(f, task) {
			n++
		}
	}
	return n
}

func (c *Coordinator) present(f *flight, task TaskID) bool {
	if _, ok := f.acks[task]; ok {
		return true
	}
	end, ok := c.finished[task]
	return ok && end.LastCut < f.barrier.ID
}

// whoIsMissing names up to five of them.
func (c *Coordinator) whoIsMissing(f *flight) string {
	const most = 5
	var names []string
	missing := 0
	for _, task := range c.order {
		if c.present(f, task) {
			continue
		}
		if missing++; missing <= most {
			names = append(names, task.String())
		}
	}
	text := "no word from " + strings.Join(names, ", ")
	if missing > most {
		text += fmt.Sprintf(" and %d more", missing-most)
	}
	return text
}
